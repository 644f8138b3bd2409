"""A ``ClassicGroup`` without a coordinator: tickets are strings, the clock is a number."""

from typing import Any

from seglog.broker.coordinator.groups.group import ClassicGroup
from seglog.broker.coordinator.groups.state import (
    Client,
    ClockReading,
    GroupLimits,
    GroupState,
    Outcome,
)
from seglog.protocol.api import (
    HeartbeatRequest,
    JoinGroupResponse,
    LeavingMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from seglog.protocol.errors import ErrorCode
from support.group_broker import join_request

WALL_MS = 1_700_000_000_000
CLIENT = Client("app", "/127.0.0.1")


class GroupDriver:
    """Drives one group; stores at once unless told otherwise.

    ``answers`` holds what every ticket was answered with, ``stored`` the generations that were
    written.
    """

    def __init__(self, delay_ms: int = 0, max_size: int = 1000) -> None:
        self.now_ms = 1000
        self.group = ClassicGroup("g", GroupLimits(delay_ms, max_size), self.now)
        self.answers: dict[str, JoinGroupResponse | SyncGroupResponse] = {}
        self.stored: list[int] = []
        self.stores = True
        self._ids = 0

    @property
    def now(self) -> ClockReading:
        return ClockReading(self.now_ms, WALL_MS + self.now_ms)

    def take(self, outcome: Outcome) -> None:
        for ticket, answer in outcome.answers:
            assert isinstance(ticket, str)
            assert ticket not in self.answers, f"{ticket} is answered twice"
            self.answers[ticket] = answer
        if outcome.must_store and self.stores:
            self.stored.append(self.group.generation)
            self.take(self.group.stored(self.group.generation, self.now))

    def join(self, ticket: str, member_id: str = "", **options: Any) -> None:
        self._ids += 1
        request = join_request(member_id, **options)
        self.take(self.group.join(request, CLIENT, ticket, self.now, f"m{self._ids}"))

    def new_id(self, **options: Any) -> str:
        """The id that a client gets with its first join."""
        ticket = f"id-{self._ids}"
        self.join(ticket, **options)
        answer = self.answers[ticket]
        assert isinstance(answer, JoinGroupResponse)
        assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
        return answer.member_id

    def joined(self, ticket: str) -> JoinGroupResponse:
        answer = self.answers[ticket]
        assert isinstance(answer, JoinGroupResponse)
        return answer

    def synced(self, ticket: str) -> SyncGroupResponse:
        answer = self.answers[ticket]
        assert isinstance(answer, SyncGroupResponse)
        return answer

    def sync(self, ticket: str, member_id: str, **options: Any) -> None:
        generation = options.pop("generation", self.group.generation)
        request = SyncGroupRequest("g", generation, member_id, **options)
        self.take(self.group.sync(request, ticket, self.now))

    def heartbeat(self, member_id: str, generation: int | None = None) -> ErrorCode:
        generation = self.group.generation if generation is None else generation
        return self.group.heartbeat(HeartbeatRequest("g", generation, member_id), self.now)

    def leave(self, member_id: str, instance_id: str | None = None) -> None:
        self.take(self.group.leave(LeavingMember(member_id, instance_id), self.now))

    def abandon(self, ticket: str) -> None:
        """Whoever waits with that ticket hangs up."""
        for member in self.group.members:
            for held in (member.join_ticket, member.sync_ticket):
                if held == ticket:
                    self.group.abandon(held, self.now)

    def advance(self, milliseconds: int) -> None:
        """Let time pass, stopping at every deadline on the way."""
        end = self.now_ms + milliseconds
        while (deadline := self.group.next_deadline_ms()) is not None and deadline <= end:
            self.now_ms = max(self.now_ms, deadline)
            self.take(self.group.expire(self.now))
            assert self.group.next_deadline_ms() != deadline, "a deadline that never passes"
        self.now_ms = end

    def stable(self, count: int, **options: Any) -> list[str]:
        """Make the empty group stable with that many members; their ids, the leader's first."""
        ids = [self.new_id(**options) for _ in range(count)]
        return self.rebalance(ids, **options)

    def rebalance(self, ids: list[str], **options: Any) -> list[str]:
        """Let these members join and sync, until the group is stable."""
        self._ids += 1
        run = f"run{self._ids}"
        members = self.group.members
        for attempt in range(3):
            for each in ids:
                all_are_in = all(other in members for other in ids)
                if self.group.state is GroupState.COMPLETING_REBALANCE and all_are_in:
                    break
                member = members.get(each)
                if member is None or member.join_ticket is None:
                    self.join(f"{run}-{each}-{attempt}", each, **options)
        assert self.group.state is GroupState.COMPLETING_REBALANCE
        leader = self.group.members.leader_id
        assert leader is not None
        for each in ids:
            assignments = {other: other.encode() for other in ids} if each == leader else {}
            self.sync(f"{run}-{each}-sync", each, assignments=assignments)
        return sorted(ids, key=lambda each: each != leader)

"""Rebalances: how the members of a group come together, and how they are lost.

The base of ``ClassicGroup``: states and their transitions, deadlines, the end of the join phase,
leaving and silence.
"""

from typing import Final

from seglog.broker.coordinator.groups.members import Member, Members, Ticket
from seglog.broker.coordinator.groups.state import (
    TRANSITIONS,
    ClockReading,
    GroupLimits,
    GroupState,
    Outcome,
)
from seglog.broker.errors import RequestError
from seglog.protocol.api import (
    JoinedMember,
    JoinGroupResponse,
    LeavingMember,
    SyncGroupResponse,
)
from seglog.protocol.errors import ErrorCode

_LEAST_WAIT_MS: Final = 1000
"""Between two looks at members none of which has joined; they may ask for a wait of nothing."""


class RebalancingGroup:
    """The members of one group over time.

    Attributes:
        group_id: its name.
        limits: as the broker's configuration has them now.
        state: where it stands.
        generation: number of the membership, raised by every rebalance.
        protocol_type: what its members are ("consumer"), None before the first one.
        protocol_name: the assignor they agreed on, None while there is none.
        members: of the generation, and those that are joining.
        changed_ms: wall clock of the last change of ``state``.
    """

    def __init__(self, group_id: str, limits: GroupLimits, now: ClockReading) -> None:
        self.group_id = group_id
        self.limits = limits
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.members = Members()
        self.changed_ms = now.wall_ms
        self._pending: dict[str, int] = {}
        self._rebalance_deadline_ms = 0
        self._initial_limit_ms: int | None = None
        self._sync_deadline_ms: int | None = None
        self._unsynced: set[str] = set()
        self._is_storing = False
        self._silence_ms: int | None = None

    # ---- what it is

    @property
    def has_pending_members(self) -> bool:
        """Whether member ids were given to clients that have not joined with them yet."""
        return bool(self._pending)

    def next_deadline_ms(self) -> int | None:
        """When ``expire`` may have something to do, None if never; a later call may be earlier.

        A member that was heard of meanwhile makes it too early; ``expire`` then finds the next one.
        Every join and sync asks for it, and must not look at all members.
        """
        deadlines: list[int] = []
        if self._silence_ms is not None and (len(self.members) or self._pending):
            deadlines.append(self._silence_ms)
        if self.state is GroupState.PREPARING_REBALANCE:
            deadlines.append(self._rebalance_deadline_ms)
        if self._sync_deadline_ms is not None:
            deadlines.append(self._sync_deadline_ms)
        return min(deadlines, default=None)

    def hears_of(self, member: Member, now: ClockReading) -> None:
        """Begin the session of a member anew."""
        member.is_heard_of(now.monotonic_ms)
        self._expect_by(member.session_deadline_ms)

    def _give_id(self, member_id: str, deadline_ms: int) -> None:
        """A client has to join with this id by then."""
        self._pending[member_id] = deadline_ms
        self._expect_by(deadline_ms)

    def _expect_by(self, deadline_ms: int) -> None:
        if self._silence_ms is None or deadline_ms < self._silence_ms:
            self._silence_ms = deadline_ms

    # ---- rebalancing

    def _move(self, state: GroupState, now: ClockReading) -> None:
        assert state in TRANSITIONS[self.state], (self.group_id, self.state, state)
        self.state = state
        self.changed_ms = now.wall_ms

    def _prepare_rebalance(self, now: ClockReading, outcome: Outcome) -> None:
        """Begin a rebalance, unless one is being prepared already."""
        if self.state is GroupState.PREPARING_REBALANCE:
            return
        limit_ms = now.monotonic_ms + self.members.rebalance_timeout_ms
        self._rebalance_deadline_ms = limit_ms
        self._initial_limit_ms = None
        if self.state is GroupState.EMPTY:
            self._initial_limit_ms = limit_ms
            delay_ms = self.limits.initial_rebalance_delay_ms
            self._rebalance_deadline_ms = min(now.monotonic_ms + delay_ms, limit_ms)
        self._drop_syncs(ErrorCode.REBALANCE_IN_PROGRESS, now, outcome)
        self._move(GroupState.PREPARING_REBALANCE, now)

    def _drop_syncs(self, error: ErrorCode, now: ClockReading, outcome: Outcome) -> None:
        """No member waits for an assignment any more."""
        self._sync_deadline_ms = None
        self._unsynced.clear()
        self._is_storing = False
        for member in self.members.syncing:
            self._dismiss(member, error, outcome)
            self.hears_of(member, now)

    def _complete_join_if_ready(self, now: ClockReading, outcome: Outcome) -> None:
        if self.state is not GroupState.PREPARING_REBALANCE:
            return
        is_due = now.monotonic_ms >= self._rebalance_deadline_ms
        if len(self.members) and not is_due:
            if self._initial_limit_ms is not None or self._pending:
                return
            if self.members.joined_count < len(self.members):
                return
        self._complete_join(now, outcome)

    def _complete_join(self, now: ClockReading, outcome: Outcome) -> None:
        """Begin the next generation with the members that have joined."""
        for member in list(self.members):
            if member.join_ticket is None and member.instance_id is None:
                self.members.remove(member)
        if len(self.members) and not self.members.elect_joined_leader():
            # Only static members, none of which is back yet: their sessions decide.
            self._initial_limit_ms = None
            timeout_ms = max(_LEAST_WAIT_MS, self.members.rebalance_timeout_ms)
            self._rebalance_deadline_ms = now.monotonic_ms + timeout_ms
            return
        self.generation += 1
        self._initial_limit_ms = None
        if not len(self.members):
            self.protocol_name = None
            self._move(GroupState.EMPTY, now)
            outcome.must_store = True
            return
        self.protocol_name = self.members.vote()
        self._move(GroupState.COMPLETING_REBALANCE, now)
        self._sync_deadline_ms = now.monotonic_ms + self.members.rebalance_timeout_ms
        for member in self.members:
            member.assignment = b""
            self._unsynced.add(member.member_id)
            if member.join_ticket is not None:
                ticket, _ = self.members.waits_no_more(member)
                outcome.answers.append((ticket, self._join_answer(member)))
                self.hears_of(member, now)

    def _join_answer(self, member: Member) -> JoinGroupResponse:
        leads = member.member_id == self.members.leader_id
        return JoinGroupResponse(
            member.member_id,
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=self.members.leader_id or "",
            members=[
                JoinedMember(each.member_id, each.instance_id, each.metadata(self.protocol_name))
                for each in self.members
            ]
            if leads
            else [],
        )

    # ---- losing members

    def leave(self, leaving: LeavingMember, now: ClockReading) -> Outcome:
        """Take a member out, a static one also by its instance id alone.

        Raises:
            RequestError: there is no such member.
        """
        self._check_alive()
        outcome = Outcome()
        if self._pending.pop(leaving.member_id, None) is not None:
            self._complete_join_if_ready(now, outcome)
            return outcome
        member_id = leaving.member_id
        if not member_id and leaving.group_instance_id is not None:
            known = self.members.of_instance(leaving.group_instance_id)
            member_id = "" if known is None else known.member_id
        member = self.members.find(member_id, leaving.group_instance_id)
        self._remove(member, now, outcome)
        return outcome

    def abandon(self, ticket: Ticket, now: ClockReading) -> None:
        """The waiter with this ticket has hung up; its session tells whether it comes back."""
        member = self.members.waiting_with(ticket)
        if member is not None:
            self.members.waits_no_more(member)
            self.hears_of(member, now)

    def expire(self, now: ClockReading) -> Outcome:
        """Drop members that were silent too long, end a rebalance that took too long."""
        outcome = Outcome()
        now_ms = now.monotonic_ms
        for member_id in [each for each, due_ms in self._pending.items() if due_ms <= now_ms]:
            del self._pending[member_id]
        doomed = [
            member
            for member in self.members
            if not member.is_waiting and member.session_deadline_ms <= now_ms
        ]
        if self._sync_deadline_ms is not None and self._sync_deadline_ms <= now_ms:
            self._sync_deadline_ms = None
            late = self._unsynced.difference(each.member_id for each in doomed)
            doomed += [member for member in self.members if member.member_id in late]
        for member in doomed:
            # The end of the join phase may have taken it already.
            if member.member_id in self.members:
                self._remove(member, now, outcome)
        self._complete_join_if_ready(now, outcome)
        silences = (each.session_deadline_ms for each in self.members if not each.is_waiting)
        self._silence_ms = min([*self._pending.values(), *silences], default=None)
        return outcome

    def _remove(self, member: Member, now: ClockReading, outcome: Outcome) -> None:
        self._dismiss(member, ErrorCode.UNKNOWN_MEMBER_ID, outcome)
        self._unsynced.discard(member.member_id)
        self.members.remove(member)
        self._prepare_rebalance(now, outcome)
        self._complete_join_if_ready(now, outcome)

    def _dismiss(self, member: Member, error: ErrorCode, outcome: Outcome) -> None:
        """Answer what a member waits for, since it will not get it."""
        join, sync = self.members.waits_no_more(member)
        if join is not None:
            outcome.answers.append((join, JoinGroupResponse(member.member_id, error)))
        if sync is not None:
            outcome.answers.append((sync, SyncGroupResponse(error)))

    # ---- its end

    def die(self, now: ClockReading) -> None:
        """The group is removed; only an empty one can be."""
        self._pending.clear()
        self._move(GroupState.DEAD, now)

    def dismiss_all(self, error: ErrorCode, now: ClockReading) -> Outcome:
        """Answer all waiting members with an error; they may come again, nothing else changes."""
        outcome = Outcome()
        for member in self.members:
            if member.is_waiting:
                self._dismiss(member, error, outcome)
                self.hears_of(member, now)
        return outcome

    def _check_alive(self) -> None:
        if self.state is GroupState.DEAD:
            raise RequestError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {self.group_id!r} was removed"
            )

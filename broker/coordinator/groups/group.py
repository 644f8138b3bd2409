"""The membership of one classic group: a state machine that is told the time.

    Empty --join--> PreparingRebalance --all joined--> CompletingRebalance --leader synced--> Stable
      ^                 |      ^  ^                        |                                   |
      +--last one left--+      |  +--join, leave, silence--+                                   |
                               +--------------------join, leave, silence-----------------------+

It does not wait and does not write. A request that has to wait hands in a ticket, and every call
returns an ``Outcome``: the tickets that can be answered now, and whether the group has to be stored
first. Deadlines are in milliseconds of the monotonic clock, plain integers that cannot wrap; the
caller asks for the next one and calls ``expire`` then. The protocol is Apache Kafka's "classic"
one.
"""

from seglog.broker.coordinator.groups.members import (
    CONSUMER_PROTOCOL_TYPE,
    Member,
    Ticket,
    is_same_subscription,
    subscribed_topics,
)
from seglog.broker.coordinator.groups.rebalance import RebalancingGroup
from seglog.broker.coordinator.groups.state import (
    Client,
    ClockReading,
    GroupLimits,
    GroupState,
    Joining,
    Outcome,
)
from seglog.broker.errors import RequestError
from seglog.protocol.api import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    SyncGroupRequest,
    SyncGroupResponse,
    TxnOffsetCommitRequest,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.wording import count_text


class ClassicGroup(RebalancingGroup):
    """One group: what its members may ask of it."""

    @classmethod
    def restored(
        cls,
        group_id: str,
        limits: GroupLimits,
        now: ClockReading,
        *,
        generation: int,
        protocol_type: str,
        protocol_name: str | None,
        leader_id: str | None,
        members: list[Member],
        changed_ms: int,
    ) -> "ClassicGroup":
        """A group as it was stored; its members have one session to show that they live."""
        group = cls(group_id, limits, now)
        group.generation = generation
        group.protocol_type = protocol_type or None
        if changed_ms >= 0:
            group.changed_ms = changed_ms
        if members:
            group.state = GroupState.STABLE
            group.protocol_name = protocol_name
            for member in members:
                group.members.add(member)
                group.hears_of(member, now)
            if leader_id in group.members:
                group.members.leader_id = leader_id
        return group

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that its members read; None if the broker cannot know."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: frozenset[str] = frozenset()
        for member in self.members:
            metadata = member.metadata(self.protocol_name or member.protocols[0][0])
            subscribed = subscribed_topics(metadata)
            if subscribed is None:
                return None
            topics |= subscribed
        return topics

    # ---- joining

    def join(
        self,
        request: JoinGroupRequest,
        client: Client,
        ticket: Ticket,
        now: ClockReading,
        new_member_id: str,
    ) -> Outcome:
        """Let a client join, or join again; its ticket is answered when the rebalance ends.

        Args:
            new_member_id: for the client, should it need one.

        Raises:
            RequestError: it may not join.
        """
        self._check_alive()
        self._check_room(request)
        self._check_protocols(request)
        outcome = Outcome()
        joining = Joining(request, client, ticket, now)
        if not request.member_id:
            self._join_without_id(joining, new_member_id, outcome)
        elif request.member_id in self._pending and request.group_instance_id is None:
            del self._pending[request.member_id]
            self._add(joining, request.member_id, outcome)
        else:
            member = self.members.find(request.member_id, request.group_instance_id)
            self._rejoin(member, joining, outcome)
        return outcome

    def _check_room(self, request: JoinGroupRequest) -> None:
        member = self.members.get(request.member_id)
        if member is None and request.group_instance_id is not None:
            member = self.members.of_instance(request.group_instance_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            if member is not None and member.join_ticket is not None:
                return
            taken = self.members.joined_count
        else:
            if member is not None or request.member_id in self._pending:
                return
            taken = len(self.members) + len(self._pending)
        if taken >= self.limits.max_size:
            raise RequestError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"group {self.group_id!r} has {count_text(taken, 'member')}, "
                f"group.max.size is {self.limits.max_size}",
            )

    def _check_protocols(self, request: JoinGroupRequest) -> None:
        names = {name for name, _ in request.protocols}
        if not request.protocol_type or not names:
            raise RequestError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "a member needs a protocol and its type"
            )
        if not len(self.members):
            return
        if request.protocol_type != self.protocol_type:
            raise RequestError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"group {self.group_id!r} is of type {self.protocol_type!r}, "
                f"not {request.protocol_type!r}",
            )
        if not self.members.has_common_protocol(names):
            common = sorted(self.members.common_protocols())
            raise RequestError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the members of group {self.group_id!r} share {common}, "
                f"of which the new one has none: {sorted(names)}",
            )

    def _join_without_id(
        self,
        joining: Joining,
        new_member_id: str,
        outcome: Outcome,
    ) -> None:
        request, _, ticket, now = joining
        if request.group_instance_id is not None:
            known = self.members.of_instance(request.group_instance_id)
            if known is not None:
                self._take_over(known, joining, new_member_id, outcome)
                return
        elif request.knows_member_id_required:
            self._give_id(new_member_id, now.monotonic_ms + request.session_timeout_ms)
            answer = JoinGroupResponse(new_member_id, ErrorCode.MEMBER_ID_REQUIRED)
            outcome.answers.append((ticket, answer))
            return
        self._add(joining, new_member_id, outcome)

    def _add(
        self,
        joining: Joining,
        member_id: str,
        outcome: Outcome,
    ) -> None:
        request, client, ticket, now = joining
        if not len(self.members):
            self.protocol_type = request.protocol_type
        member = Member(
            member_id,
            request.group_instance_id,
            client.client_id,
            client.host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            list(request.protocols),
        )
        self.members.add(member)
        self.members.wait_for_join(member, ticket)
        self.hears_of(member, now)
        if self._initial_limit_ms is not None and self.state is GroupState.PREPARING_REBALANCE:
            # A group that is just coming to life waits for more of the kind, but not for ever.
            delay_ms = self.limits.initial_rebalance_delay_ms
            self._rebalance_deadline_ms = min(now.monotonic_ms + delay_ms, self._initial_limit_ms)
        self._prepare_rebalance(now, outcome)
        self._complete_join_if_ready(now, outcome)

    def _rejoin(self, member: Member, joining: Joining, outcome: Outcome) -> None:
        request, _, ticket, now = joining
        is_unchanged = member.protocols == request.protocols
        leads = member.member_id == self.members.leader_id
        if is_unchanged and (
            self.state is GroupState.COMPLETING_REBALANCE
            or (self.state is GroupState.STABLE and not leads)
        ):
            # It missed its answer; a leader that rejoins a stable group asks for a rebalance.
            self.hears_of(member, now)
            outcome.answers.append((ticket, self._join_answer(member)))
            return
        self._dismiss(member, ErrorCode.REBALANCE_IN_PROGRESS, outcome)
        self.members.take_terms(member, request)
        self._prepare_rebalance(now, outcome)
        self.members.wait_for_join(member, ticket)
        self.hears_of(member, now)
        self._complete_join_if_ready(now, outcome)

    def _take_over(
        self, member: Member, joining: Joining, member_id: str, outcome: Outcome
    ) -> None:
        """A static member came back as a new process."""
        request, client, ticket, now = joining
        old_leader_id = self.members.leader_id
        self._dismiss(member, ErrorCode.FENCED_INSTANCE_ID, outcome)
        self._unsynced.discard(member.member_id)
        old_metadata = member.metadata(self.protocol_name)
        self.members.rename(member, member_id)
        member.client_id, member.client_host = client
        self.members.take_terms(member, request)
        self.hears_of(member, now)
        if (
            self.state is GroupState.STABLE
            and self.members.vote() == self.protocol_name
            and is_same_subscription(
                self.protocol_type, old_metadata, member.metadata(self.protocol_name)
            )
        ):
            answer = self._join_answer(member)
            if request.knows_skip_assignment:
                answer.skip_assignment = member.member_id == self.members.leader_id
            else:
                # Told that another member leads, it takes the stored assignment.
                answer.leader_id = old_leader_id or ""
                answer.members = []
            outcome.answers.append((ticket, answer))
            outcome.must_store = True
            return
        self._prepare_rebalance(now, outcome)
        self.members.wait_for_join(member, ticket)
        self._complete_join_if_ready(now, outcome)

    # ---- the assignment

    def sync(self, request: SyncGroupRequest, ticket: Ticket, now: ClockReading) -> Outcome:
        """Ask for an assignment; the leader brings all of them.

        Raises:
            RequestError: the request is not of this generation.
        """
        self._check_alive()
        member = self.members.find(request.member_id, request.group_instance_id)
        self._check_generation(request.generation_id)
        for asked, agreed in (
            (request.protocol_type, self.protocol_type),
            (request.protocol_name, self.protocol_name),
        ):
            if asked is not None and agreed is not None and asked != agreed:
                raise RequestError(
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                    f"group {self.group_id!r} has agreed on {agreed!r}, not {asked!r}",
                )
        if self.state is GroupState.PREPARING_REBALANCE:
            raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS, "the group rebalances")
        outcome = Outcome()
        self.hears_of(member, now)
        self._unsynced.discard(member.member_id)
        if not self._unsynced:
            self._sync_deadline_ms = None
        if self.state is GroupState.STABLE:
            outcome.answers.append((ticket, self._sync_answer(member)))
            return outcome
        self._dismiss(member, ErrorCode.REBALANCE_IN_PROGRESS, outcome)
        self.members.wait_for_sync(member, ticket)
        if member.member_id == self.members.leader_id and not self._is_storing:
            self._is_storing = True
            for each in self.members:
                each.assignment = bytes(request.assignments.get(each.member_id, b""))
            outcome.must_store = True
        return outcome

    def stored(self, generation: int, now: ClockReading) -> Outcome:
        """The assignments of a generation are in the log: give them out."""
        outcome = Outcome()
        if not self._is_storing or generation != self.generation:
            return outcome
        self._is_storing = False
        self._move(GroupState.STABLE, now)
        for member in self.members.syncing:
            _, ticket = self.members.waits_no_more(member)
            outcome.answers.append((ticket, self._sync_answer(member)))
            self.hears_of(member, now)
        return outcome

    def store_failed(self, generation: int, error: ErrorCode, now: ClockReading) -> Outcome:
        """The assignments of a generation could not be stored: its members have to try again."""
        outcome = Outcome()
        if self._is_storing and generation == self.generation:
            self._drop_syncs(error, now, outcome)
            self._prepare_rebalance(now, outcome)
        return outcome

    def _sync_answer(self, member: Member) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    def _check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise RequestError(
                ErrorCode.ILLEGAL_GENERATION,
                f"group {self.group_id!r} is at generation {self.generation}, not {generation}",
            )

    # ---- signs of life

    def heartbeat(self, request: HeartbeatRequest, now: ClockReading) -> ErrorCode:
        """Note that a member lives; REBALANCE_IN_PROGRESS tells it to join again.

        Raises:
            RequestError: it is no member of this generation.
        """
        self._check_alive()
        member = self.members.find(request.member_id, request.group_instance_id)
        self._check_generation(request.generation_id)
        self.hears_of(member, now)
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def check_commit(self, request: OffsetCommitRequest, now: ClockReading) -> None:
        """Judge whether the sender of a commit may store offsets.

        A client that belongs to no generation (-1, without a member id) may while the group is
        empty; a member of the current generation may but while it waits for its assignment.

        Raises:
            RequestError: it may not.
        """
        self._check_alive()
        is_outsider = not request.member_id and request.group_instance_id is None
        if request.generation_id < 0 and self.state is GroupState.EMPTY:
            return
        if request.generation_id < 0 and is_outsider:
            raise RequestError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id!r} has members of its own"
            )
        member = self.members.find(request.member_id, request.group_instance_id)
        self._check_generation(request.generation_id)
        if self.state is GroupState.COMPLETING_REBALANCE:
            raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS, "the group rebalances")
        self.hears_of(member, now)

    def check_transactional_commit(self, request: TxnOffsetCommitRequest) -> None:
        """The same for a commit in a transaction, which has a fence of its own.

        Old clients do not say which member they are, and a member may commit at any time of its
        generation; as in Apache Kafka.

        Raises:
            RequestError: a member is named that may not commit.
        """
        self._check_alive()
        is_outsider = not request.member_id and request.group_instance_id is None
        if request.generation_id < 0 and (is_outsider or self.state is GroupState.EMPTY):
            return
        self.members.find(request.member_id, request.group_instance_id)
        self._check_generation(request.generation_id)

"""One member of a group, by Kafka's classic protocol. Belongs to the loop.

It joins, divides where it leads, takes over what it is given, and begins anew when the group
rebalances. States and their order are in ``states``, signs of life in ``heartbeats``.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable
from typing import Final, Protocol

from seglog.clients.config import ConsumerConfig
from seglog.clients.coordinator import CoordinatorClient
from seglog.clients.errors import BrokerError, ClientError, CommitFailedError
from seglog.clients.group.assignors import ASSIGNORS
from seglog.clients.group.commits import NOT_A_MEMBER, Member, Standing
from seglog.clients.group.division import Division
from seglog.clients.group.states import WITH_HEARTBEATS, MemberEvent, MemberState, next_state
from seglog.clients.group.steps import Step, StepKind
from seglog.clients.group.topics import SubscribedTopics
from seglog.clients.group.wire import PROTOCOL_TYPE, decode_assignment, encode_subscription
from seglog.protocol.api import (
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from seglog.protocol.errors import ErrorCode, ProtocolError
from seglog.protocol.types import TopicPartition

NO_GENERATION: Final = -1
_logger = logging.getLogger("seglog.clients")


class Reader(Protocol):
    """What a membership needs of the consumer that it belongs to."""

    @property
    def owned(self) -> Collection[TopicPartition]:
        """The partitions that are read."""
        ...

    @property
    def progress(self) -> object:
        """Differs from what it was before if the application has read on."""
        ...

    @property
    def is_waiting(self) -> bool:
        """Whether the application waits for records right now."""
        ...

    def call(self) -> None:
        """Ask the reader to come and take the next step."""
        ...

    async def begin(self, partitions: Collection[TopicPartition], timeout_s: float) -> None:
        """Read these too, from the committed offsets."""
        ...


class Membership(Member):
    """A consumer's membership in its group.

    Args:
        config: of the consumer.
        coordinator: of the group.
        topics: what it wants to read.
        reader: whose partitions it deals with.
        is_heard: whether a listener wants to be told about new partitions.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        coordinator: CoordinatorClient,
        topics: SubscribedTopics,
        reader: Reader,
        *,
        is_heard: bool,
    ) -> None:
        self.state = MemberState.UNJOINED
        self.step: Step | None = None
        """What the reader is to do; it answers by ``step.done``."""
        self.error: ClientError | None = None
        """Why there is no way on."""
        self.is_away = False
        """Whether it left because the application does not read on."""
        self._config = config
        self._coordinator = coordinator
        self._topics = topics
        self._division = Division(topics)
        self._reader = reader
        self._is_heard = is_heard
        self._is_cooperative = all(ASSIGNORS[name].is_cooperative for name in config.assignors)
        self._member_id = ""
        self._generation = NO_GENERATION
        self._previous: tuple[list[TopicPartition], int] = ([], NO_GENERATION)
        self._due = asyncio.Event()
        self._is_lost = False
        self._loss = "it has not joined yet"

    # What others see.

    @property
    def is_settled(self) -> bool:
        """Whether the reader has all that this generation gives it."""
        return self.state is MemberState.STABLE and not self._due.is_set()

    @property
    def has_lost_partitions(self) -> bool:
        """Whether what the reader has may be with others already."""
        return self._is_lost

    @property
    def identity(self) -> Standing | None:
        """Generation and names, None while it is no member."""
        if self._generation == NO_GENERATION:
            return None
        return Standing(self._generation, self._member_id, self._config.group_instance_id)

    def standing(self) -> Standing:
        """As whom to commit.

        Raises:
            CommitFailedError: not a member; says why.
            ClientError: what has ended the membership.
        """
        if self.error is not None:
            raise self.error
        identity = self.identity
        if identity is None:
            raise CommitFailedError(
                f"group {self._coordinator.key}: not committed, this consumer is no member: "
                f"{self._loss}"
            )
        return identity

    # What others tell.

    def is_passing(self, standing: Standing, code: ErrorCode) -> bool:
        """Take note of a refusal; returns whether it comes from a rebalance that is under way."""
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            return True
        is_between = self.state in {MemberState.JOINING, MemberState.SYNCING}
        if code is ErrorCode.FENCED_INSTANCE_ID and self.state in WITH_HEARTBEATS:
            self.fail(self._coordinator.error(code))
        if code not in NOT_A_MEMBER:
            return False
        if is_between:
            return True
        if standing != self.identity:
            return self.identity is not None
        self._lose(code)
        return False

    def rebalance(self, reason: str) -> None:
        """Join again."""
        _logger.debug("group %s: joining again: %s", self._coordinator.key, reason)
        self._due.set()

    def see_metadata(self) -> None:
        """Metadata is new: the member that leads divides again if that turns out otherwise."""
        if self.state is MemberState.STABLE and self._division.is_outdated:
            self.rebalance("topics of the group have changed")

    def finish(self, step: Step) -> None:
        """The reader has done a step."""
        if self.step is step:
            self.step = None
            step.done.set_result(None)

    def fail(self, error: ClientError) -> None:
        """There is no way on; the reader gets the error."""
        if self.error is None and self.state is not MemberState.CLOSED:
            self.error = error
            self.state = next_state(self.state, MemberEvent.FAIL)
            self._due.set()
            self._reader.call()

    async def leave_for_a_while(self) -> None:
        """Let others have the partitions until the application reads on."""
        self.is_away = True
        member_id = self._member_id
        self._lose(
            ErrorCode.UNKNOWN_MEMBER_ID,
            "the application did not read on for longer than "
            f"max_poll_interval_ms={self._config.max_poll_interval_ms}, so its partitions went to "
            "others; it joins again when the application reads",
        )
        await self._say_goodbye(member_id, "the application takes too long")

    async def leave(self) -> None:
        """End the membership; a static member only goes quiet, so that it can come back."""
        self.state = next_state(self.state, MemberEvent.CLOSE)
        self._generation = NO_GENERATION
        self._loss = "it is closed"
        await self._say_goodbye(self._member_id, "the consumer is closed")

    async def _say_goodbye(self, member_id: str, reason: str) -> None:
        if not member_id or self._config.group_instance_id is not None:
            return
        leaving = [LeavingMember(member_id, None, reason)]
        try:
            await self._coordinator.ask(LeaveGroupRequest(self._coordinator.key, leaving))
        except ClientError as error:
            _logger.debug("group %s: leaving: %s", self._coordinator.key, error)

    # The life of a member.

    async def run(self) -> None:
        """Be a member until cancelled, or until an error that does not pass."""
        try:
            while self.error is None:
                if not self._is_lost:
                    await self._become_member()
                await self._due.wait()
                if self.error is None:
                    await self._yield()
        except ClientError as error:
            self.fail(error)
        except ProtocolError as error:
            self.fail(ClientError(f"group {self._coordinator.key}: {error}"))

    def _move(self, event: MemberEvent) -> None:
        if self.error is not None:
            raise self.error
        self.state = next_state(self.state, event)
        _logger.debug("group %s: %s, now %s", self._coordinator.key, event.name, self.state.name)

    def _lose(self, code: ErrorCode, reason: str = "") -> None:
        """The group goes on without this member."""
        self._loss = reason or (
            f"the broker answered {code.name}, so its partitions may be with others"
        )
        self._is_lost = True
        self._generation = NO_GENERATION
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        self._due.set()
        self._reader.call()

    async def _become_member(self) -> None:
        attempt = 0
        while not self._is_lost:
            attempt += 1
            try:
                assigned = await self._join()
            except ClientError as error:
                must_wait = self._take_refusal(error)
            else:
                await self._adopt(assigned)
                return
            if must_wait:
                await asyncio.sleep(self._coordinator.pause_s(attempt))

    def _take_refusal(self, error: ClientError) -> bool:
        """Decide how to go on; returns whether to wait before.

        Raises:
            ClientError: there is no way on.
        """
        code = error.code if isinstance(error, BrokerError) else None
        if code is not None and code in NOT_A_MEMBER:
            self._lose(code)
            return True
        self._move(MemberEvent.REFUSED)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            return False
        if code is not ErrorCode.REBALANCE_IN_PROGRESS:
            if not error.retriable:
                raise error
            self._coordinator.warn(error)
        return True

    # Joining.

    async def _join(self) -> list[TopicPartition]:
        """Take part in a rebalance; returns what this member is to read."""
        self._move(MemberEvent.JOIN)
        self._due.clear()
        self._division.forget()
        config = self._config
        timeout_s = (config.max_poll_interval_ms + config.request_timeout_ms) / 1000
        joined: JoinGroupResponse = await self._coordinator.ask(self._join_request(), timeout_s)
        if joined.error in {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED}:
            self._member_id = joined.member_id
        self._check(joined.error)
        self._move(MemberEvent.JOINED)
        assignments: dict[str, bytes] = {}
        if joined.leader_id == joined.member_id and not joined.skip_assignment:
            assignments = await self._division.divide(joined)
        sync = SyncGroupRequest(
            self._coordinator.key,
            joined.generation_id,
            joined.member_id,
            config.group_instance_id,
            joined.protocol_type,
            joined.protocol_name,
            assignments,
        )
        synced: SyncGroupResponse = await self._coordinator.ask(sync, timeout_s)
        self._check(synced.error)
        assigned = decode_assignment(synced.assignment)
        if not self._is_lost:
            self._generation = joined.generation_id
        self._move(MemberEvent.ASSIGNED)
        _logger.info(
            "group %s: member %s has %d partitions in generation %d",
            self._coordinator.key,
            joined.member_id,
            len(assigned),
            joined.generation_id,
        )
        return assigned

    def _join_request(self) -> JoinGroupRequest:
        config = self._config
        return JoinGroupRequest(
            self._coordinator.key,
            self._member_id,
            config.session_timeout_ms,
            config.max_poll_interval_ms,
            PROTOCOL_TYPE,
            [(name, self._subscription_for(name)) for name in config.assignors],
            config.group_instance_id,
        )

    def _subscription_for(self, assignor: str) -> bytes:
        owned, generation = self._previous
        if self._is_cooperative:
            owned, generation = sorted(self._reader.owned), self._generation
        elif ASSIGNORS[assignor].is_cooperative:
            owned, generation = [], NO_GENERATION  # All was given up before.
        return encode_subscription(assignor, self._topics.names, owned, generation)

    def _check(self, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            raise self._coordinator.error(code)

    # Taking over and giving up.

    async def _adopt(self, assigned: Iterable[TopicPartition]) -> None:
        owned, wanted = set(self._reader.owned), set(assigned)
        revoked, added = sorted(owned - wanted), sorted(wanted - owned)
        if revoked:
            await self._hand_over(StepKind.REVOKED, revoked)
        if added and not self._is_lost:
            await self._begin(added)
        if self._is_heard and not self._is_lost and (added or not self._is_cooperative):
            await self._hand_over(StepKind.ASSIGNED, added)
        self._move(MemberEvent.ADOPTED)
        if revoked and self._is_cooperative:
            self.rebalance("partitions were given up, which others wait for")
        self._reader.call()

    async def _begin(self, partitions: Collection[TopicPartition]) -> None:
        """Begin to read; partitions that are unknown until the next rebalance are left to it."""
        attempt = 0
        while not self._due.is_set():
            attempt += 1
            try:
                await self._reader.begin(partitions, self._config.request_timeout_ms / 1000)
            except ClientError as error:
                if not error.retriable:
                    raise
                self._coordinator.warn(error)
            else:
                return
            await asyncio.sleep(self._coordinator.pause_s(attempt))

    async def _yield(self) -> None:
        """Give up what must not be read through the coming rebalance."""
        self._move(MemberEvent.LOST if self._is_lost else MemberEvent.REBALANCE)
        owned = sorted(self._reader.owned)
        if self._generation != NO_GENERATION:
            self._previous = (owned, self._generation)
        if self._is_lost:
            if owned or self.is_away:
                await self._hand_over(StepKind.LOST, owned)
        else:
            given_up = owned
            if self._is_cooperative:
                given_up = [each for each in owned if each.topic not in self._topics.names]
            if given_up:
                await self._hand_over(StepKind.REVOKED, given_up)
        self._is_lost = self.is_away = False
        self._move(MemberEvent.YIELDED)

    async def _hand_over(self, kind: StepKind, partitions: Collection[TopicPartition]) -> None:
        step = self.step = Step(kind, sorted(partitions))
        self._reader.call()
        await step.done

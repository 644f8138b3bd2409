"""Committed offsets of a group: storing and reading them. Belongs to the loop."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from seglog.clients.coordinator import CoordinatorClient
from seglog.clients.errors import (
    BrokerError,
    ClientError,
    CommitFailedError,
    FencedInstanceIdError,
    OffsetCommitError,
    broker_error,
)
from seglog.clients.models import OffsetAndMetadata
from seglog.clients.retry import answered_in_time
from seglog.clients.session.retrying import Patience
from seglog.protocol.api import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchGroup,
    OffsetFetchPartition,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import TopicPartition
from seglog.protocol.wording import count_text

NOT_A_MEMBER: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
_ABOUT_THE_GROUP: Final = NOT_A_MEMBER | {
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.REQUEST_TIMED_OUT,
}
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Standing(NamedTuple):
    """The identity for commits; by default that of no member."""

    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class Member:
    """The identity for commits. That of a consumer outside of any generation is always accepted.

    ``Membership`` does better.
    """

    def standing(self) -> Standing:
        """The present identity for commits; raises ``CommitFailedError`` without one."""
        return Standing()

    def is_passing(self, standing: Standing, code: ErrorCode) -> bool:
        """Take note of a refusal; returns whether it may pass by itself."""
        return standing == self.standing() and code is ErrorCode.REBALANCE_IN_PROGRESS


class OffsetCommits:
    """Stores and reads the offsets of a group.

    Args:
        coordinator: of the group.
        member: as whom to store.
    """

    about_all = _ABOUT_THE_GROUP
    """Answers that are not about one partition, though they come with each."""

    def __init__(self, coordinator: CoordinatorClient, member: Member) -> None:
        self._coordinator = coordinator
        self._member = member

    async def commit(self, offsets: Offsets, timeout_s: float) -> None:
        """Store offsets; again while that can help.

        Raises:
            CommitFailedError: the consumer is no member of the group (any more).
            OffsetCommitError: some are not stored, for a reason of their own.
            RebalanceInProgressError: the group did not settle in time.
            ClientTimeoutError, BrokerConnectionError: not stored in time, or that is not known.
        """
        pending = dict(offsets)
        refused: dict[TopicPartition, BrokerError] = {}
        loop = asyncio.get_running_loop()
        patience = Patience(self._coordinator.pause_s, timeout_s, loop.time())
        while pending:
            standing = self._member.standing()
            try:
                await self._try(standing, pending, refused, patience.left_s(loop.time()))
                continue
            except ClientError as error:
                failure = error
            is_passing = failure.retriable
            if isinstance(failure, BrokerError):
                is_passing |= self._member.is_passing(standing, failure.code)
            pause_s = patience.pause_s(loop.time())
            if not is_passing or pause_s is None:
                raise self._explained(failure)
            await asyncio.sleep(pause_s)
        if refused:
            first = next(iter(refused.values()))
            raise OffsetCommitError(
                f"group {self._coordinator.key}: {len(refused)} of "
                f"{count_text(len(offsets), 'offset')} not committed: {first}",
                first.code,
                errors=refused,
            )

    async def _try(
        self,
        standing: Standing,
        pending: dict[TopicPartition, OffsetAndMetadata],
        refused: dict[TopicPartition, BrokerError],
        timeout_s: float,
    ) -> None:
        """Ask once; decided commits leave ``pending``."""
        request = self.request(standing, pending)
        response: OffsetCommitResponse = await self._coordinator.ask(request, timeout_s)
        for result in response.partitions:
            if result.error in self.about_all:
                raise self._coordinator.error(result.error)
            partition = TopicPartition(result.topic, result.partition)
            if pending.pop(partition, None) is not None and result.error is not ErrorCode.NONE:
                refused[partition] = broker_error(result.error, None, str(partition))
        if pending:
            about = ", ".join(map(str, pending))
            raise broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, "no answer about them", about)

    def request(self, standing: Standing, offsets: Offsets) -> Any:
        """The request that stores offsets."""
        return OffsetCommitRequest(
            self._coordinator.key,
            commit_partitions(offsets),
            standing.generation,
            standing.member_id,
            standing.instance_id,
        )

    def _explained(self, error: ClientError) -> ClientError:
        if isinstance(error, BrokerError) and error.code in NOT_A_MEMBER:
            try:
                self._member.standing()
            except (CommitFailedError, FencedInstanceIdError) as better:
                return better
            return CommitFailedError(
                f"group {self._coordinator.key}: not committed: the broker answered "
                f"{error.code.name}, the group has members and this consumer is none of them",
                error.code,
            )
        return error

    async def fetch(
        self,
        partitions: Collection[TopicPartition] | None,
        timeout_s: float,
        *,
        require_stable: bool = True,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Read offsets; None for a partition of which none is committed.

        Args:
            partitions: which; None means all that have one.
            timeout_s: how long to try.
            require_stable: wait where an open transaction is about to replace an offset.
        """
        asked = None
        if partitions is not None:
            asked = [OffsetFetchPartition(*partition) for partition in partitions]
        request = OffsetFetchRequest(
            [OffsetFetchGroup(self._coordinator.key, asked)], require_stable=require_stable
        )

        async def ask(left_s: float) -> dict[TopicPartition, OffsetAndMetadata | None]:
            return self._read(await self._coordinator.retry(request, left_s))

        return await answered_in_time(ask, timeout_s, self._coordinator.pause_s)

    def _read(
        self, response: OffsetFetchResponse
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        (group,) = response.groups
        if group.error is not ErrorCode.NONE:
            raise self._coordinator.error(group.error)
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for result in group.partitions:
            partition = TopicPartition(result.topic, result.partition)
            if result.error is not ErrorCode.NONE:
                raise broker_error(result.error, None, str(partition))
            found[partition] = None
            if result.offset >= 0:
                found[partition] = OffsetAndMetadata(
                    result.offset, result.metadata or "", result.leader_epoch
                )
        return found


def commit_partitions(offsets: Offsets) -> list[OffsetCommitPartition]:
    """Offsets as they travel."""
    return [
        OffsetCommitPartition(*partition, each.offset, each.leader_epoch, each.metadata)
        for partition, each in offsets.items()
    ]

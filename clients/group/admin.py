"""What tools ask about groups, and how they change the offsets of those without members."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from seglog.clients.cluster import Cluster
from seglog.clients.coordinator import CoordinatorClient, patiently
from seglog.clients.errors import (
    BrokerError,
    CommitFailedError,
    GroupNotEmptyError,
    OffsetCommitError,
    UnknownTopicOrPartitionError,
    broker_error,
)
from seglog.clients.group.commits import Member, OffsetCommits
from seglog.clients.group.offset_reset import ResetRule, ResetTarget, offsets_at
from seglog.clients.group.wire import PROTOCOL_TYPE, decode_assignment, decode_subscription
from seglog.clients.models import (
    GroupInfo,
    GroupLag,
    GroupMember,
    OffsetAndMetadata,
    OffsetChange,
)
from seglog.clients.offsets import (
    ByPartition,
    OffsetFinder,
    PartitionLike,
    as_partition,
    checked_offsets,
)
from seglog.protocol.api import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    GroupDescription,
    GroupMemberDescription,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)
from seglog.protocol.errors import ErrorCode, ProtocolError
from seglog.protocol.types import TopicPartition
from seglog.protocol.wording import count_text

_DEAD: Final = "Dead"
_AnswerT = TypeVar("_AnswerT")


class GroupAdmin:
    """Looks after groups; part of an admin client.

    Args:
        cluster: whom to ask.
        finder: finds offsets.
        timeout_s: how long each question may take.
    """

    def __init__(self, cluster: Cluster, finder: OffsetFinder, timeout_s: float) -> None:
        self._cluster = cluster
        self._finder = finder
        self._timeout_s = timeout_s

    # Groups.

    async def list(self, states: Sequence[str] = ()) -> Sequence[ListedGroup]:
        """The groups in these states (none given: in all), by name."""
        return await self._patiently(partial(self._list, states))

    async def _list(self, states: Sequence[str]) -> Sequence[ListedGroup]:
        metadata = await self._cluster.retry(MetadataRequest(topics=[]), self._timeout_s)
        found: dict[str, ListedGroup] = {}
        request = ListGroupsRequest(list(states))
        for broker in metadata.brokers:
            response: ListGroupsResponse = await self._cluster.request(
                request, self._timeout_s, broker.node_id
            )
            if response.error is not ErrorCode.NONE:
                raise broker_error(response.error, None, "groups")
            found.update((group.group_id, group) for group in response.groups)
        return [found[name] for name in sorted(found)]

    async def describe(self, groups: Iterable[str]) -> dict[str, GroupInfo]:
        """State and members of groups; raises ``GroupNotFoundError`` if one does not exist."""
        return {group: await self._patiently(partial(self._describe, group)) for group in groups}

    async def _describe(self, group: str) -> GroupInfo:
        coordinator = CoordinatorClient(self._cluster, group)
        response = await coordinator.retry(DescribeGroupsRequest([group]), self._timeout_s)
        (found,) = response.groups
        code = found.error
        if code is ErrorCode.NONE and found.state == _DEAD:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        if code is not ErrorCode.NONE:
            raise coordinator.error(code, found.error_message)
        assert coordinator.node_id is not None, "an answer came from no node"
        return _info_of(found, coordinator.node_id)

    async def delete(self, groups: Iterable[str]) -> None:
        """Delete groups with their offsets; does what it can, then raises the first error."""
        errors: list[BrokerError] = []
        for group in groups:
            try:
                await self._patiently(partial(self._delete, group))
            except BrokerError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def _delete(self, group: str) -> None:
        coordinator = CoordinatorClient(self._cluster, group)
        response = await coordinator.ask(DeleteGroupsRequest([group]), self._timeout_s)
        (result,) = response.groups
        if result.error is not ErrorCode.NONE:
            raise coordinator.error(result.error, result.error_message)

    async def _patiently(self, ask: Callable[[], Awaitable[_AnswerT]]) -> _AnswerT:
        """Ask again while groups are being read after a start, or the coordinator moves."""
        return await patiently(self._cluster, ask, self._timeout_s)

    # Offsets.

    async def offsets(
        self, group: str, partitions: Iterable[PartitionLike] | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Committed offsets (None: of all partitions that have one)."""
        chosen = None if partitions is None else [as_partition(each) for each in partitions]
        # An operator wants to see the present offsets, and not to wait for a transaction.
        return await self._commits(group).fetch(chosen, self._timeout_s, require_stable=False)

    async def alter(self, group: str, offsets: ByPartition[int | OffsetAndMetadata]) -> None:
        """Set committed offsets of a group without members."""
        checked = checked_offsets(offsets)
        try:
            await self._commits(group).commit(checked, self._timeout_s)
        except CommitFailedError as error:
            raise GroupNotEmptyError(
                f"group {group} has members, so its offsets cannot be changed from outside"
            ) from error

    async def delete_offsets(self, group: str, partitions: Iterable[PartitionLike]) -> None:
        """Forget committed offsets of partitions that no member reads."""
        chosen = [as_partition(each) for each in partitions]
        await self._patiently(partial(self._delete_offsets, group, chosen))

    async def _delete_offsets(self, group: str, chosen: Sequence[TopicPartition]) -> None:
        coordinator = CoordinatorClient(self._cluster, group)
        response: OffsetDeleteResponse = await coordinator.ask(
            OffsetDeleteRequest(group, [(topic, number) for topic, number in chosen]),
            self._timeout_s,
        )
        if response.error is not ErrorCode.NONE:
            raise coordinator.error(response.error)
        errors = {
            TopicPartition(each.topic, each.partition): broker_error(
                each.error, None, f"{each.topic}-{each.partition}"
            )
            for each in response.partitions
            if each.error is not ErrorCode.NONE
        }
        if errors:
            first = next(iter(errors.values()))
            raise OffsetCommitError(
                f"group {group}: {len(errors)} of {count_text(len(chosen), 'offset')} "
                f"not deleted: {first}",
                first.code,
                errors=errors,
            )

    async def reset(
        self,
        group: str,
        chosen: Iterable[str | PartitionLike] | None,
        to: ResetTarget | None,
        shift_by: int | None,
        *,
        dry_run: bool,
    ) -> dict[TopicPartition, OffsetChange]:
        """Set committed offsets by a rule; see ``AsyncAdmin.reset_group_offsets``."""
        rule = ResetRule(to, shift_by)
        if chosen is None and isinstance(to, Mapping):
            chosen = list(to)
        committed = await self._committed_of(group, chosen)
        changes = await rule.changes(committed, self._finder, self._timeout_s)
        if not dry_run and changes:
            await self.alter(
                group, {partition: change.after for partition, change in changes.items()}
            )
        return changes

    async def _committed_of(
        self, group: str, chosen: Iterable[str | PartitionLike] | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        if chosen is None:
            return await self.offsets(group, None)
        places = [chosen] if isinstance(chosen, str) else list(chosen)
        counts = await self._partition_counts(
            each if isinstance(each, str) else as_partition(each).topic for each in places
        )
        partitions: list[TopicPartition] = []
        for each in places:
            if isinstance(each, str):
                # A topic that does not exist is refused by its first partition.
                numbers = range(max(1, counts[each]))
                partitions += [TopicPartition(each, number) for number in numbers]
            else:
                partitions.append(as_partition(each))
        for topic, number in partitions:
            if number >= counts[topic]:
                raise UnknownTopicOrPartitionError(
                    f"topic {topic} has {counts[topic]} partitions, no {number}"
                    if counts[topic]
                    else f"topic {topic} does not exist"
                )
        return await self.offsets(group, partitions)

    async def lag(self, group: str) -> dict[TopicPartition, GroupLag]:
        """How far a group is in all partitions that it has an offset for, or that members have."""
        info = await self._patiently(partial(self._describe, group))
        readers = {partition: member for member in info.members for partition in member.partitions}
        committed = await self.offsets(group, None)
        partitions = sorted(readers.keys() | committed.keys())
        counts = await self._partition_counts(partition.topic for partition in partitions)
        # A member has its partitions for a while after they were deleted.
        existing = [each for each in partitions if each.partition < counts[each.topic]]
        starts = await offsets_at(self._finder, existing, "earliest", self._timeout_s)
        ends = await offsets_at(self._finder, existing, "latest", self._timeout_s)
        lags: dict[TopicPartition, GroupLag] = {}
        for partition in partitions:
            each, end = committed.get(partition), ends.get(partition)
            offset = None if each is None else each.offset
            lag = None
            if offset is not None and end is not None:
                # Records that are gone need no reading: a reader goes on at the log start.
                lag = max(0, end - max(offset, starts.get(partition) or 0))
            lags[partition] = GroupLag(offset, end, lag, readers.get(partition))
        return lags

    async def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions topics have, 0 where there is no such topic."""
        names = sorted(set(topics))
        request = MetadataRequest(names, allow_auto_topic_creation=False)
        metadata: MetadataResponse = await self._cluster.retry(request, self._timeout_s)
        counts = dict.fromkeys(names, 0)
        counts.update((topic.name or "", len(topic.partitions)) for topic in metadata.topics)
        return counts

    def _commits(self, group: str) -> OffsetCommits:
        return OffsetCommits(CoordinatorClient(self._cluster, group), Member())


def _info_of(found: GroupDescription, coordinator_id: int) -> GroupInfo:
    is_readable = found.protocol_type == PROTOCOL_TYPE
    return GroupInfo(
        found.group_id,
        found.state,
        found.protocol_type,
        found.protocol_name,
        tuple(
            _member_of(member, found.protocol_name, is_readable=is_readable)
            for member in found.members
        ),
        coordinator_id,
    )


def _member_of(member: GroupMemberDescription, assignor: str, *, is_readable: bool) -> GroupMember:
    topics: frozenset[str] = frozenset()
    partitions: tuple[TopicPartition, ...] = ()
    if is_readable and member.metadata:
        try:
            subscription = decode_subscription(
                assignor, member.member_id, member.group_instance_id, member.metadata
            )
            topics = subscription.topics
            partitions = tuple(sorted(decode_assignment(member.assignment)))
        except ProtocolError:
            # A client with bytes of its own: there is nothing to be said about its partitions.
            partitions = ()
    return GroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        topics,
        partitions,
    )

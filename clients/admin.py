"""``AsyncAdmin``: topics, configurations, offsets and housekeeping."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, TypeVar, Unpack

from seglog.clients.cluster import Cluster
from seglog.clients.config import ClientConfig, ClientOptions, make_config
from seglog.clients.errors import UnknownTopicOrPartitionError, broker_error
from seglog.clients.models import (
    GroupInfo,
    GroupLag,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    OffsetChange,
)
from seglog.clients.offsets import (
    ByPartition,
    OffsetFinder,
    PartitionLike,
    TimeSpec,
    as_partition,
    checked_mapping,
)
from seglog.clients.transaction_tools import TransactionTools
from seglog.protocol.api import (
    AlterConfigResource,
    AlterConfigsRequest,
    CleanLogResult,
    CleanLogsRequest,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    CreatePartitionsRequest,
    CreateTopicResult,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribePartitionsRequest,
    ListedGroup,
    LogDirDescription,
    MetadataRequest,
    MetadataResponse,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    RetentionFinding,
    RollSegmentsRequest,
    RollSegmentsResult,
    RunRetentionRequest,
    TopicMetadata,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import (
    AlterConfigOperation,
    ConfigResourceType,
    IsolationLevel,
    TopicPartition,
)

if TYPE_CHECKING:
    from seglog.clients.group.admin import GroupAdmin
    from seglog.clients.group.offset_reset import ResetTarget

ConfigValue = str | int | float | bool
ResourceKind = Literal["topic", "broker"]
_RESOURCE_TYPES: Final = {"topic": ConfigResourceType.TOPIC, "broker": ConfigResourceType.BROKER}


class _Result(Protocol):
    error: ErrorCode
    error_message: str | None


_ResultT = TypeVar("_ResultT", bound=_Result)


class AsyncAdmin(TransactionTools):
    """Creates, describes, changes and deletes what a broker holds.

    Operations that answer for several topics or partitions do what they can for each and then
    raise the first error. Use it as ``async with``, or call ``start`` and ``close``.

    Args:
        bootstrap_servers: "host:port" of a broker, several with commas or as a sequence.
        **options: see ``ClientConfig``.

    Raises:
        ConfigurationError: an option that cannot be right.
    """

    def __init__(
        self, bootstrap_servers: str | Iterable[str], **options: Unpack[ClientOptions]
    ) -> None:
        self.config = make_config(ClientConfig, options)
        self.cluster = Cluster(bootstrap_servers, self.config)
        self._finder = OffsetFinder(self.cluster, IsolationLevel.READ_UNCOMMITTED)
        self._timeout_s = self.config.request_timeout_ms / 1000

    async def start(self) -> Self:
        """Connect; idempotent.

        Raises:
            BrokerUnreachableError: none of the bootstrap servers answers; names host and port.
        """
        await self.cluster.start()
        return self

    async def close(self) -> None:
        """Disconnect; idempotent."""
        await self.cluster.close()

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # Topics.

    async def create_topic(
        self,
        name: str,
        partitions: int = -1,
        *,
        replication_factor: int = -1,
        configs: Mapping[str, ConfigValue] | None = None,
        validate_only: bool = False,
    ) -> CreateTopicResult:
        """Create a topic; -1 takes the broker's default.

        Raises:
            TopicAlreadyExistsError, InvalidTopicError, InvalidPartitionsError, InvalidConfigError
        """
        texts: dict[str, str | None] = {
            key: config_text(value) for key, value in (configs or {}).items()
        }
        topic = NewTopic(name, partitions, replication_factor, texts)
        (result,) = await self.create_topics([topic], validate_only=validate_only)
        return result

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[CreateTopicResult]:
        """Create several topics."""
        request = CreateTopicsRequest(
            list(topics), self.config.request_timeout_ms, validate_only=validate_only
        )
        response = await self._ask(request)
        return _checked(response.topics, lambda result: f"topic {result.name}")

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records; raises ``UnknownTopicOrPartitionError``."""
        await self.delete_topics([name])

    async def delete_topics(self, names: Sequence[str]) -> None:
        """Delete several topics."""
        request = DeleteTopicsRequest(list(names), timeout_ms=self.config.request_timeout_ms)
        response = await self._ask(request)
        _checked(response.topics, lambda result: f"topic {result.name}")

    async def create_partitions(self, topic: str, count: int) -> None:
        """Grow a topic to ``count`` partitions; raises ``InvalidPartitionsError``.

        Records with a key that are sent from then on may go to another partition than before.
        """
        request = CreatePartitionsRequest(
            [NewPartitions(topic, count)], self.config.request_timeout_ms
        )
        response = await self._ask(request)
        _checked(response.topics, lambda result: f"topic {result.name}")

    async def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """The names of all topics."""
        topics = (await self._metadata(None)).topics
        return sorted(
            topic.name
            for topic in topics
            if topic.name is not None and (include_internal or not topic.is_internal)
        )

    async def describe_topics(self, names: Sequence[str] | None = None) -> dict[str, TopicMetadata]:
        """Partitions, leaders and replicas of topics (None: of all).

        Raises:
            UnknownTopicOrPartitionError: one of ``names`` does not exist.
        """
        response = await self._metadata(None if names is None else list(names))
        topics = _checked(response.topics, lambda topic: f"topic {topic.name}")
        return {topic.name: topic for topic in topics if topic.name is not None}

    async def describe_cluster(self) -> MetadataResponse:
        """The brokers, the cluster's id and its controller."""
        return await self._metadata([])

    async def _metadata(self, names: list[str] | None) -> MetadataResponse:
        response: MetadataResponse = await self._repeat(MetadataRequest(names))
        if response.error is not ErrorCode.NONE:
            raise broker_error(response.error, None, "metadata")
        return response

    # Configurations.

    async def describe_configs(
        self,
        kind: ResourceKind,
        name: str,
        keys: Sequence[str] | None = None,
        *,
        include_documentation: bool = False,
    ) -> dict[str, ConfigEntry]:
        """The configuration of a topic, or of a broker by its id ("" for all brokers)."""
        resource = ConfigResource(_RESOURCE_TYPES[kind], name, None if keys is None else list(keys))
        request = DescribeConfigsRequest(
            [resource], include_synonyms=True, include_documentation=include_documentation
        )
        response = await self._repeat(request)
        (result,) = _checked(response.resources, lambda result: _resource_text(kind, result.name))
        return {entry.name: entry for entry in result.entries}

    async def alter_configs(
        self,
        kind: ResourceKind,
        name: str,
        changes: Mapping[str, ConfigValue | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set values, or with None go back to the default; all of them or none.

        Raises:
            InvalidConfigError: a key that does not exist or a value that is not allowed.
        """
        resource = AlterConfigResource(
            _RESOURCE_TYPES[kind], name, [_change_of(key, changes[key]) for key in changes]
        )
        response = await self._ask(AlterConfigsRequest([resource], validate_only))
        _checked(response.resources, lambda result: _resource_text(kind, result.name))

    # Offsets and records.

    async def list_offsets(
        self, questions: ByPartition[TimeSpec]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Look up offsets.

        Args:
            questions: by (topic, partition): "earliest", "latest", "max_timestamp", or a time (ms
                since the epoch or a datetime) for the first record at or after it.

        Returns:
            By partition; None where no record is at or after the time.
        """
        return await self._finder.find(checked_mapping(questions), self._timeout_s)

    async def delete_records(self, offsets: ByPartition[int]) -> dict[TopicPartition, int]:
        """Delete the records before an offset of each partition; -1 is the high watermark.

        Returns:
            The first offset that each partition has now.

        Raises:
            OffsetOutOfRangeError: beyond the end.
        """
        partitions = [
            DeleteRecordsPartition(*as_partition(partition), offset)
            for partition, offset in offsets.items()
        ]
        request = DeleteRecordsRequest(partitions, self.config.request_timeout_ms)
        response = await self._repeat(request)
        results = _checked(response.partitions, lambda result: f"{result.topic}-{result.partition}")
        return {
            TopicPartition(result.topic, result.partition): result.low_watermark
            for result in results
        }

    # Consumer groups.

    @property
    def _groups(self) -> "GroupAdmin":
        # A program that only manages topics must not pay for the formats of groups.
        from seglog.clients.group.admin import GroupAdmin

        return GroupAdmin(self.cluster, self._finder, self._timeout_s)

    async def list_groups(self, *, states: Sequence[str] = ()) -> Sequence[ListedGroup]:
        """The groups in these states (none given: in all), by name."""
        return await self._groups.list(states)

    async def describe_groups(self, groups: Iterable[str]) -> dict[str, GroupInfo]:
        """State and members of groups; raises ``GroupNotFoundError`` if one does not exist."""
        return await self._groups.describe(groups)

    async def delete_groups(self, groups: Iterable[str]) -> None:
        """Delete groups with their offsets.

        Raises:
            GroupNotEmptyError: one has members.
            GroupNotFoundError: one does not exist.
        """
        await self._groups.delete(groups)

    async def list_group_offsets(
        self, group: str, partitions: Iterable[PartitionLike] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets of a group (None: of all partitions that have one)."""
        return await self._groups.offsets(group, partitions)

    async def alter_group_offsets(
        self, group: str, offsets: ByPartition[int | OffsetAndMetadata]
    ) -> None:
        """Set committed offsets of a group; one that does not exist comes to be.

        Raises:
            GroupNotEmptyError: the group has members.
            OffsetCommitError: some offsets are not set, the others are.
        """
        await self._groups.alter(group, offsets)

    async def delete_group_offsets(self, group: str, partitions: Iterable[PartitionLike]) -> None:
        """Forget committed offsets of partitions that no member of the group reads.

        Raises:
            OffsetCommitError: some are still there.
            GroupNotFoundError: there is no such group.
        """
        await self._groups.delete_offsets(group, partitions)

    async def reset_group_offsets(
        self,
        group: str,
        partitions: Iterable[str | PartitionLike] | None = None,
        *,
        to: "ResetTarget | None" = None,
        shift_by: int | None = None,
        dry_run: bool = False,
    ) -> dict[TopicPartition, OffsetChange]:
        """Set committed offsets of a group without members by a rule.

        Args:
            group: its name.
            partitions: topics or ``(topic, partition)`` pairs; None: all that have an offset.
            to: "earliest", "latest", an offset, a datetime for the first record at or after it,
                "current" for the committed offset (the end without one), or a mapping with an
                offset for each partition.
            shift_by: instead: so many offsets forward, or back if negative.
            dry_run: only say what would be done.

        Returns:
            The change of each partition; nothing is set outside of the offsets that exist.

        Raises:
            GroupNotEmptyError: the group has members.
            ConfigurationError: neither ``to`` nor ``shift_by``, or both, or nothing to shift.
        """
        return await self._groups.reset(group, partitions, to, shift_by, dry_run=dry_run)

    async def group_lag(self, group: str) -> dict[TopicPartition, GroupLag]:
        """How far a group is behind in each of its partitions.

        Raises:
            GroupNotFoundError: there is no such group.
        """
        return await self._groups.lag(group)

    # Housekeeping.

    async def describe_log_dirs(
        self, partitions: Iterable[PartitionLike] | None = None
    ) -> list[LogDirDescription]:
        """Data directories, and the size of each partition (None: of all) in them."""
        chosen: list[tuple[str, int]] | None = None
        if partitions is not None:
            chosen = [as_partition(partition) for partition in partitions]
        response = await self._repeat(DescribeLogDirsRequest(chosen))
        return list(response.log_dirs)

    async def describe_partitions(
        self, topics: Sequence[str] | None = None, *, include_segments: bool = False
    ) -> dict[TopicPartition, PartitionDescription]:
        """Offsets, segments and cleaner state of the partitions of topics (None: of all).

        Raises:
            UnknownTopicOrPartitionError: a topic does not exist.
        """
        request = DescribePartitionsRequest(
            None if topics is None else list(topics), include_segments
        )
        response = await self._repeat(request)
        if response.unknown_topics:
            raise UnknownTopicOrPartitionError(f"unknown: {', '.join(response.unknown_topics)}")
        return {TopicPartition(each.topic, each.partition): each for each in response.partitions}

    async def run_retention(
        self, topics: Sequence[str] | None = None, *, dry_run: bool = False
    ) -> list[RetentionFinding]:
        """Apply retention now (``dry_run``: only say what it would delete, and why)."""
        request = RunRetentionRequest(None if topics is None else list(topics), dry_run)
        response = await self._repeat(request)
        _checked([response], lambda _: "retention")
        return list(response.findings)

    async def clean(
        self, topic: str, partitions: Sequence[int] | None = None, *, wait: bool = False
    ) -> list[CleanLogResult]:
        """Compact the partitions of a topic now (None: all); ``wait`` until that is done."""
        chosen = None if partitions is None else list(partitions)
        response = await self._ask(CleanLogsRequest(topic, chosen, wait))
        return _checked(response.partitions, lambda result: f"{result.topic}-{result.partition}")

    async def roll(
        self, topic: str, partitions: Sequence[int] | None = None
    ) -> list[RollSegmentsResult]:
        """Begin a new segment in the partitions of a topic (None: in all)."""
        chosen = None if partitions is None else list(partitions)
        response = await self._ask(RollSegmentsRequest(topic, chosen))
        return _checked(response.partitions, lambda result: f"{result.topic}-{result.partition}")

    async def _ask(self, request: Any) -> Any:
        """For what must not be done twice: no second attempt once the request is sent."""
        return await self.cluster.request(request, self._timeout_s)

    async def _repeat(self, request: Any) -> Any:
        return await self.cluster.retry(request, self._timeout_s)


def config_text(value: ConfigValue) -> str:
    """A value of a configuration as Kafka spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _resource_text(kind: ResourceKind, name: str) -> str:
    """What an error is about; the settings for all brokers have no name."""
    return f"{kind} {name}" if name else f"all {kind}s"


def _change_of(key: str, value: ConfigValue | None) -> ConfigChange:
    if value is None:
        return ConfigChange(key, AlterConfigOperation.DELETE)
    return ConfigChange(key, AlterConfigOperation.SET, config_text(value))


def _checked(results: Sequence[_ResultT], about: Callable[[_ResultT], str]) -> list[_ResultT]:
    """The results, unless one is an error."""
    for result in results:
        if result.error is ErrorCode.NONE:
            continue
        message = result.error_message
        if result.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not message:
            message = f"{about(result)} does not exist"
        raise broker_error(result.error, message, about(result))
    return list(results)

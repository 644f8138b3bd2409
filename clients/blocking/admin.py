"""``Admin``: topics, configurations, offsets and housekeeping, from threads."""

# Made by python -m seglog.clients.blocking.generate.

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from seglog.clients.admin import AsyncAdmin, ConfigValue, ResourceKind
from seglog.clients.blocking.facade import BlockingClient
from seglog.clients.config import ClientOptions
from seglog.clients.models import (
    GroupInfo,
    GroupLag,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    OffsetChange,
    OpenTransaction,
    TransactionInfo,
)
from seglog.clients.offsets import ByPartition, PartitionLike, TimeSpec
from seglog.protocol.api import (
    CleanLogResult,
    ConfigEntry,
    CreateTopicResult,
    ListedGroup,
    ListedTransaction,
    LogDirDescription,
    MetadataResponse,
    NewTopic,
    PartitionDescription,
    RetentionFinding,
    RollSegmentsResult,
    TopicMetadata,
)
from seglog.protocol.types import TopicPartition

if TYPE_CHECKING:
    from seglog.clients.group.offset_reset import ResetTarget


class Admin(BlockingClient[AsyncAdmin]):
    """Creates, describes, changes and deletes what a broker holds.

    Operations that answer for several topics or partitions do what they can for each and then raise
    the first error. Use it as ``with``, or call ``close``. Threads may share it.

    Args:
        bootstrap_servers: "host:port" of a broker, several with commas or as a sequence.
        **options: see ``ClientConfig``.

    Raises:
        ConfigurationError: an option that cannot be right.
        BrokerUnreachableError: none of the bootstrap servers answers; names host and port.
    """

    def __init__(
        self, bootstrap_servers: str | Iterable[str], **options: Unpack[ClientOptions]
    ) -> None:
        super().__init__(AsyncAdmin(bootstrap_servers, **options), "seglog-admin")

    def create_topic(
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
        return self._call(
            self._twin.create_topic(
                name,
                partitions,
                replication_factor=replication_factor,
                configs=configs,
                validate_only=validate_only,
            )
        )

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[CreateTopicResult]:
        """Create several topics."""
        return self._call(self._twin.create_topics(topics, validate_only=validate_only))

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records; raises ``UnknownTopicOrPartitionError``."""
        self._call(self._twin.delete_topic(name))

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete several topics."""
        self._call(self._twin.delete_topics(names))

    def create_partitions(self, topic: str, count: int) -> None:
        """Grow a topic to ``count`` partitions; raises ``InvalidPartitionsError``.

        Records with a key that are sent from then on may go to another partition than before.
        """
        self._call(self._twin.create_partitions(topic, count))

    def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """The names of all topics."""
        return self._call(self._twin.list_topics(include_internal=include_internal))

    def describe_topics(self, names: Sequence[str] | None = None) -> dict[str, TopicMetadata]:
        """Partitions, leaders and replicas of topics (None: of all).

        Raises:
            UnknownTopicOrPartitionError: one of ``names`` does not exist.
        """
        return self._call(self._twin.describe_topics(names))

    def describe_cluster(self) -> MetadataResponse:
        """The brokers, the cluster's id and its controller."""
        return self._call(self._twin.describe_cluster())

    def describe_configs(
        self,
        kind: ResourceKind,
        name: str,
        keys: Sequence[str] | None = None,
        *,
        include_documentation: bool = False,
    ) -> dict[str, ConfigEntry]:
        """The configuration of a topic, or of a broker by its id ("" for all brokers)."""
        return self._call(
            self._twin.describe_configs(
                kind, name, keys, include_documentation=include_documentation
            )
        )

    def alter_configs(
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
        self._call(self._twin.alter_configs(kind, name, changes, validate_only=validate_only))

    def list_offsets(
        self, questions: ByPartition[TimeSpec]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Look up offsets.

        Args:
            questions: by (topic, partition): "earliest", "latest", "max_timestamp", or a time (ms
                since the epoch or a datetime) for the first record at or after it.

        Returns:
            By partition; None where no record is at or after the time.
        """
        return self._call(self._twin.list_offsets(questions))

    def delete_records(self, offsets: ByPartition[int]) -> dict[TopicPartition, int]:
        """Delete the records before an offset of each partition; -1 is the high watermark.

        Returns:
            The first offset that each partition has now.

        Raises:
            OffsetOutOfRangeError: beyond the end.
        """
        return self._call(self._twin.delete_records(offsets))

    def list_groups(self, *, states: Sequence[str] = ()) -> Sequence[ListedGroup]:
        """The groups in these states (none given: in all), by name."""
        return self._call(self._twin.list_groups(states=states))

    def describe_groups(self, groups: Iterable[str]) -> dict[str, GroupInfo]:
        """State and members of groups; raises ``GroupNotFoundError`` if one does not exist."""
        return self._call(self._twin.describe_groups(groups))

    def delete_groups(self, groups: Iterable[str]) -> None:
        """Delete groups with their offsets.

        Raises:
            GroupNotEmptyError: one has members.
            GroupNotFoundError: one does not exist.
        """
        self._call(self._twin.delete_groups(groups))

    def list_group_offsets(
        self, group: str, partitions: Iterable[PartitionLike] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets of a group (None: of all partitions that have one)."""
        return self._call(self._twin.list_group_offsets(group, partitions))

    def alter_group_offsets(
        self, group: str, offsets: ByPartition[int | OffsetAndMetadata]
    ) -> None:
        """Set committed offsets of a group; one that does not exist comes to be.

        Raises:
            GroupNotEmptyError: the group has members.
            OffsetCommitError: some offsets are not set, the others are.
        """
        self._call(self._twin.alter_group_offsets(group, offsets))

    def delete_group_offsets(self, group: str, partitions: Iterable[PartitionLike]) -> None:
        """Forget committed offsets of partitions that no member of the group reads.

        Raises:
            OffsetCommitError: some are still there.
            GroupNotFoundError: there is no such group.
        """
        self._call(self._twin.delete_group_offsets(group, partitions))

    def reset_group_offsets(
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
        return self._call(
            self._twin.reset_group_offsets(
                group, partitions, to=to, shift_by=shift_by, dry_run=dry_run
            )
        )

    def group_lag(self, group: str) -> dict[TopicPartition, GroupLag]:
        """How far a group is behind in each of its partitions.

        Raises:
            GroupNotFoundError: there is no such group.
        """
        return self._call(self._twin.group_lag(group))

    def describe_log_dirs(
        self, partitions: Iterable[PartitionLike] | None = None
    ) -> list[LogDirDescription]:
        """Data directories, and the size of each partition (None: of all) in them."""
        return self._call(self._twin.describe_log_dirs(partitions))

    def describe_partitions(
        self, topics: Sequence[str] | None = None, *, include_segments: bool = False
    ) -> dict[TopicPartition, PartitionDescription]:
        """Offsets, segments and cleaner state of the partitions of topics (None: of all).

        Raises:
            UnknownTopicOrPartitionError: a topic does not exist.
        """
        return self._call(self._twin.describe_partitions(topics, include_segments=include_segments))

    def run_retention(
        self, topics: Sequence[str] | None = None, *, dry_run: bool = False
    ) -> list[RetentionFinding]:
        """Apply retention now (``dry_run``: only say what it would delete, and why)."""
        return self._call(self._twin.run_retention(topics, dry_run=dry_run))

    def clean(
        self, topic: str, partitions: Sequence[int] | None = None, *, wait: bool = False
    ) -> list[CleanLogResult]:
        """Compact the partitions of a topic now (None: all); ``wait`` until that is done."""
        return self._call(self._twin.clean(topic, partitions, wait=wait))

    def roll(self, topic: str, partitions: Sequence[int] | None = None) -> list[RollSegmentsResult]:
        """Begin a new segment in the partitions of a topic (None: in all)."""
        return self._call(self._twin.roll(topic, partitions))

    def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> Sequence[ListedTransaction]:
        """Transactional ids, by name.

        Args:
            states: only those in these states, if any are given.
            producer_ids: only those of these producers, if any are given.
            duration_ms: only those with a transaction that is open for longer; -1 takes all.
            pattern: a regular expression that whole names match.
        """
        return self._call(
            self._twin.list_transactions(
                states=states, producer_ids=producer_ids, duration_ms=duration_ms, pattern=pattern
            )
        )

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionInfo]:
        """State, owner and partitions; raises ``TransactionalIdNotFoundError``."""
        return self._call(self._twin.describe_transactions(transactional_ids))

    def open_transactions(
        self, partitions: Iterable[str | PartitionLike] | None = None
    ) -> list[OpenTransaction]:
        """Transactions that are open in partitions, and hold readers of decided records back.

        Args:
            partitions: topics or ``(topic, partition)`` pairs; None is all.

        Returns:
            By partition. One without ``transactional_id`` hangs: no coordinator will end it.
        """
        return self._call(self._twin.open_transactions(partitions))

    def abort_transactions(self, transactional_ids: Iterable[str]) -> None:
        """Shut the producers of transactional ids out, and abort what they have open.

        Raises:
            TransactionalIdNotFoundError: there is no such id.
        """
        self._call(self._twin.abort_transactions(transactional_ids))

    def abort_open_transaction(self, transaction: OpenTransaction) -> None:
        """End a hanging transaction in its partition, without effect.

        Its coordinator is not asked: one that has a transactional id is for
        ``abort_transactions``.
        """
        self._call(self._twin.abort_open_transaction(transaction))

"""``Consumer``: reads records in order, from a thread."""

# Made by python -m seglog.clients.blocking.generate.

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack

from seglog.clients.blocking.reading import BlockingReader
from seglog.clients.config import ConsumerOptions
from seglog.clients.consumer.consumer import AsyncConsumer
from seglog.clients.consumer.starts import Start, TopicsLike
from seglog.clients.models import GroupMetadata, OffsetAndMetadata, OffsetAndTimestamp
from seglog.clients.offsets import ByPartition, PartitionLike, TimeSpec
from seglog.protocol.types import TopicPartition

if TYPE_CHECKING:
    from seglog.clients.group.steps import RebalanceListener


class Consumer(BlockingReader):
    """Reads the records of topics or of chosen partitions.

    Iterating yields each record as it comes, without end unless ``stop_at_end`` is set. Lost
    connections and restarts of the broker are waited out. Use it as ``with``, or call ``close``.
    One thread reads at a time.

    With ``group`` the partitions of the topics are shared with the other members of that group, and
    reading begins where the group has committed. Partitions come and go while the application
    reads; one that takes longer than ``max_poll_interval_ms`` loses them to others.

    Args:
        bootstrap_servers: "host:port" of a broker, several with commas or as a sequence.
        topics: a topic, topics, ``(topic, partition)`` pairs, or a mapping from such pairs to
            where to begin in each (an integer is an offset there); in a group also a compiled
            pattern that whole names of topics match.
        start: where to begin: "earliest", "latest", a time (ms since the epoch or a datetime), an
            ``Offset``, or ``Last(n)`` records of each partition. Partitions that are added to a
            topic later are read from their first record. In a group it only counts where nothing
            is committed. None is "latest", and in a group what ``offset_reset`` says.
        stop_at_end: end when everything is read that was there at the start.
        listener: is told when partitions come and go, in the thread that reads.
        **options: see ``ConsumerConfig``.

    Raises:
        ConfigurationError: an argument that cannot be right.
        BrokerUnreachableError: none of the bootstrap servers answers; names host and port.
        UnknownTopicOrPartitionError: a topic or partition does not exist.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        topics: TopicsLike = (),
        *,
        start: Start | None = None,
        stop_at_end: bool = False,
        listener: "RebalanceListener | None" = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__(
            AsyncConsumer(
                bootstrap_servers,
                topics,
                start=start,
                stop_at_end=stop_at_end,
                listener=listener,
                **options,
            ),
            "seglog-consumer",
        )

    def subscribe(self, topics: TopicsLike, start: Start | None = None) -> None:
        """Read something else from now on; see the class for both arguments."""
        self._call(self._twin.subscribe(topics, start))

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return self._twin.assignment

    def pause(self, partitions: Iterable[PartitionLike]) -> None:
        """Give out nothing of these partitions until ``resume``."""
        self._call_on_loop(lambda: self._twin.pause(partitions))

    def resume(self, partitions: Iterable[PartitionLike]) -> None:
        """Go on with partitions that were paused."""
        self._call_on_loop(lambda: self._twin.resume(partitions))

    def commit(
        self,
        offsets: ByPartition[int | OffsetAndMetadata] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Store how far the group has come.

        Args:
            offsets: of each partition the offset of the next record to read; None takes that of
                everything that this consumer has given out.
            timeout: seconds; None is ``request_timeout_ms``.

        Raises:
            CommitFailedError: the consumer is no member of the group (any more).
            RebalanceInProgressError: the group did not settle in time; read on and try again.
            OffsetCommitError: some offsets are not stored, the others are.
            ConfigurationError: the consumer has no group.
        """
        self._call(self._twin.commit(offsets, timeout))

    def committed(
        self, partitions: Iterable[PartitionLike] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for partitions (None: for those that are read)."""
        return self._call(self._twin.committed(partitions))

    def group_metadata(self) -> GroupMetadata:
        """The identity of this consumer in its group, for ``send_offsets_to_transaction``.

        Raises:
            CommitFailedError: it is no member of the group (any more).
            ConfigurationError: the consumer has no group.
        """
        return self._call_on_loop(self._twin.group_metadata)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offset behind what this consumer has given out, of each partition that is read.

        It is what ``commit`` stores, and what ``send_offsets_to_transaction`` takes.
        """
        return self._call_on_loop(self._twin.positions)

    def seek(self, partition: PartitionLike, start: Start) -> None:
        """Go on elsewhere in a partition.

        Args:
            partition: one of those that are read.
            start: an offset, or whatever the class takes for ``start``.

        Raises:
            ConfigurationError: the partition is not read by this consumer.
        """
        self._call(self._twin.seek(partition, start))

    def position(self, partition: PartitionLike) -> int:
        """The offset of the next record that this consumer will give out of a partition.

        Raises:
            NoCommittedOffsetError: the group has none, and ``offset_reset`` is "error".
        """
        return self._call(self._twin.position(partition))

    def offsets_for_times(
        self, times: ByPartition[TimeSpec]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time (ms or datetime) in each partition; None if none."""
        return self._call(self._twin.offsets_for_times(times))

    def beginning_offsets(
        self, partitions: Iterable[PartitionLike] | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition (None: of those that are read)."""
        return self._call(self._twin.beginning_offsets(partitions))

    def end_offsets(
        self, partitions: Iterable[PartitionLike] | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last readable record of each partition (None: of all read)."""
        return self._call(self._twin.end_offsets(partitions))

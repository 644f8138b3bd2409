"""``Consumer``: reads records in order, from a thread."""

from collections.abc import Callable, Iterable, Iterator
from typing import Unpack

from seglog.clients.blocking.facade import BlockingClient
from seglog.clients.config import ConsumerOptions
from seglog.clients.consumer.consumer import READ_RECORDS, READ_TIMEOUT_S, AsyncConsumer
from seglog.clients.consumer.starts import Start, TopicsLike
from seglog.clients.models import OffsetAndTimestamp
from seglog.clients.offsets import ByPartition, PartitionLike, TimeSpec
from seglog.protocol.records.record import Record
from seglog.protocol.types import TopicPartition


class Consumer(BlockingClient[AsyncConsumer]):
    """Reads the records of topics or of chosen partitions; used by one thread at a time.

    Iterating yields each record as it comes, without end unless ``stop_at_end`` is set. Lost
    connections and restarts of the broker are waited out. Use it as ``with``, or call ``close``.

    Args:
        bootstrap_servers: "host:port" of a broker, several with commas or as a sequence.
        topics: a topic, topics, ``(topic, partition)`` pairs, or a mapping from such pairs to
            where to begin in each (an integer is an offset there).
        start: where to begin: "earliest", "latest", a time (ms since the epoch or a datetime), an
            ``Offset``, or ``Last(n)`` records of each partition. Partitions that are added to a
            topic later are read from their first record.
        stop_at_end: end when everything is read that was there at the start.
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
        start: Start = "latest",
        stop_at_end: bool = False,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        twin = AsyncConsumer(
            bootstrap_servers, topics, start=start, stop_at_end=stop_at_end, **options
        )
        super().__init__(twin, "seglog-consumer")

    def subscribe(self, topics: TopicsLike, start: Start = "latest") -> None:
        """Read something else from now on; see the class for both arguments."""
        self._call(self._twin.subscribe(topics, start))

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return self._twin.assignment

    def pause(self, partitions: Iterable[PartitionLike]) -> None:
        """Stop fetching these partitions until ``resume``; what is fetched already still comes."""
        self._call(_run(lambda: self._twin.pause(partitions)))

    def resume(self, partitions: Iterable[PartitionLike]) -> None:
        """Go on with partitions that were paused."""
        self._call(_run(lambda: self._twin.resume(partitions)))

    def __iter__(self) -> Iterator[Record]:
        """Yield record after record.

        Raises:
            OffsetOutOfRangeError: the position is not there and ``offset_reset`` is "error".
            CorruptRecordError: fetched bytes are damaged.
            BrokerError: the broker refuses for a reason that does not pass.
        """
        twin = self._twin
        stream = twin.stream
        while True:
            # From a list, without a step to the other thread for each record.
            yield from stream.current
            if not stream.load() and not self._call(twin.wait_for_data()):
                return

    def until_end(self) -> Iterator[Record]:
        """Yield the records up to the end as it is now; then the consumer can be read further."""
        self._call(self._twin.stop_at_present_end())
        try:
            yield from self
        finally:
            if not self._is_closed:
                self._call(_run(self._twin.forget_end))

    def read(
        self, max_records: int = READ_RECORDS, timeout: float | None = READ_TIMEOUT_S
    ) -> list[Record]:
        """Return the next records.

        Comes back as soon as there are ``max_records``, or some and the broker has no more just
        now, or the end is reached at which the consumer stops, or the time is up.

        Args:
            max_records: at most so many.
            timeout: seconds; None waits for at least one record.

        Returns:
            The records, none if the time is up or the end is reached.

        Raises:
            The same as iterating.
        """
        return self._call(self._twin.read(max_records, timeout))

    def seek(self, partition: PartitionLike, start: Start) -> None:
        """Go on elsewhere in a partition: at an offset, or whatever the class takes for ``start``.

        Raises:
            ConfigurationError: the partition is not read by this consumer.
        """
        self._call(self._twin.seek(partition, start))

    def position(self, partition: PartitionLike) -> int:
        """The offset of the next record that this consumer will give out of a partition."""
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


async def _run(function: Callable[[], None]) -> None:
    """Call what belongs on the loop's thread."""
    function()

"""``Consumer``: reads records in order, from a thread."""

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar, Unpack

from seglog.clients.blocking.facade import EXIT_TIMEOUT_S, BlockingClient
from seglog.clients.config import ConsumerOptions
from seglog.clients.consumer.consumer import READ_RECORDS, READ_TIMEOUT_S, AsyncConsumer
from seglog.clients.consumer.core import CLOSE_TIMEOUT_S
from seglog.clients.consumer.starts import Start, TopicsLike
from seglog.clients.errors import ConfigurationError
from seglog.clients.models import GroupMetadata, OffsetAndMetadata, OffsetAndTimestamp
from seglog.clients.offsets import ByPartition, PartitionLike, TimeSpec
from seglog.protocol.records.record import Record
from seglog.protocol.types import TopicPartition

if TYPE_CHECKING:
    from seglog.clients.group.steps import RebalanceListener

_ResultT = TypeVar("_ResultT")


class Consumer(BlockingClient[AsyncConsumer]):
    """Reads the records of topics or of chosen partitions; used by one thread at a time.

    Iterating yields each record as it comes, without end unless ``stop_at_end`` is set. Lost
    connections and restarts of the broker are waited out. Use it as ``with``, or call ``close``.

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
        ConfigurationError: an option that cannot be right.
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
        twin = AsyncConsumer(
            bootstrap_servers,
            topics,
            start=start,
            stop_at_end=stop_at_end,
            listener=listener,
            **options,
        )
        super().__init__(twin, "seglog-consumer")

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Disconnect and end the thread; idempotent.

        In a group, commit positions before (with ``auto_commit``) and leave.

        Args:
            timeout: seconds for that.
        """
        if not self._is_closed:
            self._end(self._twin.close(timeout))

    def close_at_exit(self) -> None:
        """Close, because the interpreter ends: what the last record was to do may be undone."""
        if not self._is_closed:
            self._end(self._twin.shut(EXIT_TIMEOUT_S, is_done=False))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._is_closed:
            self._end(self._twin.shut(CLOSE_TIMEOUT_S, is_done=kind is None))

    def subscribe(self, topics: TopicsLike, start: Start | None = None) -> None:
        """Read something else from now on; see the class for both arguments."""
        self._call(self._twin.subscribe(topics, start))

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return self._twin.assignment

    def pause(self, partitions: Iterable[PartitionLike]) -> None:
        """Give out nothing of these partitions until ``resume``."""
        self._call(_run(lambda: self._twin.pause(partitions)))

    def resume(self, partitions: Iterable[PartitionLike]) -> None:
        """Go on with partitions that were paused."""
        self._call(_run(lambda: self._twin.resume(partitions)))

    def __iter__(self) -> Iterator[Record]:
        """Yield record after record.

        Raises:
            OffsetOutOfRangeError: the position is not there and ``offset_reset`` is "error".
            NoCommittedOffsetError: the group has none, and ``offset_reset`` is "error".
            CorruptRecordError: fetched bytes are damaged.
            BrokerError: the broker refuses for a reason that does not pass.
        """
        twin = self._twin
        stream = twin.stream
        while True:
            self._check_open()
            stream.is_iterated = True
            # From a list, without a step to the other thread for each record.
            if twin.group is None:
                yield from stream.current
            else:
                for record in stream.current:
                    yield record
                    if stream.attention:
                        break
            if twin.poll():
                self._serve_group()
            elif not (stream.is_in_batch or stream.load() or self._call(twin.wait_for_data())):
                return

    def _serve_group(self) -> None:
        """As the twin's, but the listener is called in this thread."""
        from seglog.clients.group.steps import tell

        group = self._twin.group
        if group is None:
            return
        step = self._call(group.prepare_step())
        if step is None:
            return
        try:
            told = tell(self._twin.listener, step)
            if told is not None:
                raise ConfigurationError(
                    "the listener of a blocking consumer cannot be awaited: use plain methods"
                )
        finally:
            self._call(group.finish_step(step))

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
            max_records: at most so many, and at least 1.
            timeout: seconds; None waits for at least one record.

        Returns:
            The records, none if the time is up or the end is reached.

        Raises:
            The same as iterating.
        """
        self._twin.stream.begin_turn()
        try:
            return self._read(max_records, timeout)
        except BaseException:
            # Ctrl-C, which the records may have met on their way here: they have reached nobody.
            if not self._is_closed:
                self._call(_run(self._twin.take_back))
            raise

    def _read(self, max_records: int, timeout: float | None) -> list[Record]:
        twin = self._twin
        if twin.group is None:
            return self._call(twin.read(max_records, timeout))
        deadline_s = self._call(_run(lambda: twin.deadline_s(timeout)))
        while True:
            if twin.poll():
                self._serve_group()
            else:
                records = self._call(twin.read_some(max_records, deadline_s))
                if records is not None:
                    return records

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
        """Who this consumer is in its group now, for ``send_offsets_to_transaction``.

        Raises:
            CommitFailedError: it is no member of the group (any more).
            ConfigurationError: the consumer has no group.
        """
        self._check_open()
        return self._twin.group_metadata()

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offset behind what this consumer has given out, of each partition that is read.

        It is what ``commit`` stores, and what ``send_offsets_to_transaction`` takes.
        """
        return self._call(self._positions())

    async def _positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._twin.positions()

    def seek(self, partition: PartitionLike, start: Start) -> None:
        """Go on elsewhere in a partition: at an offset, or whatever the class takes for ``start``.

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


async def _run(function: Callable[[], _ResultT]) -> _ResultT:
    """Call what belongs on the loop's thread."""
    return function()

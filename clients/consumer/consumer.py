"""``AsyncConsumer``: reads records in order, from wherever one likes, alone or in a group."""

import copy
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Final, Self

from seglog.clients.consumer.core import CLOSE_TIMEOUT_S, ConsumerCore
from seglog.clients.consumer.starts import Offset, Start, TopicsLike, place_of
from seglog.clients.models import GroupMetadata, OffsetAndMetadata, OffsetAndTimestamp
from seglog.clients.offsets import (
    ByPartition,
    PartitionLike,
    TimeSpec,
    as_partition,
    checked_mapping,
    checked_offsets,
)
from seglog.protocol.records.record import Record
from seglog.protocol.types import TopicPartition

READ_TIMEOUT_S: Final = 1.0
READ_RECORDS: Final = 500


class AsyncConsumer(ConsumerCore):
    """Reads the records of topics or of chosen partitions.

    Iterating yields each record as it comes, without end unless ``stop_at_end`` is set. Lost
    connections and restarts of the broker are waited out. Use it as ``async with``, or call
    ``start`` and ``close``. One task reads at a time.

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
        listener: is told when partitions come and go.
        **options: see ``ConsumerConfig``.

    Raises:
        ConfigurationError: an argument that cannot be right.
    """

    async def close(
        self,
        timeout: float = CLOSE_TIMEOUT_S,  # noqa: ASYNC109 - disconnects all the same then
    ) -> None:
        """Disconnect; idempotent. A reader that waits gets ``ClientClosedError``.

        In a group, commit positions before (with ``auto_commit``) and leave.

        Args:
            timeout: seconds for that.
        """
        await self.shut(timeout, is_done=True)

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
        # What the last record was to do may have failed: that one is not committed.
        await self.shut(CLOSE_TIMEOUT_S, is_done=kind is None)

    # The partitions that are read.

    async def subscribe(self, topics: TopicsLike, start: Start | None = None) -> None:
        """Read something else from now on; see the class for both arguments."""
        partitions = self._started()
        subscription = self._parse(topics, start)
        await self._end_session(CLOSE_TIMEOUT_S, is_done=True)
        partitions.end(list(partitions.states))
        self.cluster.unwatch([*self.cluster.topics])
        self._subscription = subscription
        await self._begin()

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return sorted(self._started().states)

    def pause(self, partitions: Iterable[PartitionLike]) -> None:
        """Give out nothing of these partitions until ``resume``."""
        for partition in partitions:
            self._started().pause(partition)

    def resume(self, partitions: Iterable[PartitionLike]) -> None:
        """Go on with partitions that were paused."""
        for partition in partitions:
            self._started().unpause(partition)

    # Reading.

    def __aiter__(self) -> AsyncIterator[Record]:
        """Yield record after record.

        A wait for the next one that is cancelled loses nothing; the iterator goes on after it, and
        after an error.

        Raises:
            OffsetOutOfRangeError: the position is not there and ``offset_reset`` is "error".
            NoCommittedOffsetError: the group has none, and ``offset_reset`` is "error".
            CorruptRecordError: fetched bytes are damaged.
            BrokerError: the broker refuses for a reason that does not pass.
        """
        self._started()
        return _RecordIterator(self)

    async def until_end(self) -> AsyncIterator[Record]:
        """Yield the records up to the end as it is now; then the consumer can be read further."""
        await self.stop_at_present_end()
        try:
            async for record in self:
                yield record
        finally:
            self.forget_end()

    async def read(
        self,
        max_records: int = READ_RECORDS,
        timeout: float | None = READ_TIMEOUT_S,  # noqa: ASYNC109 - returns fewer records, no error
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
        deadline_s = self.deadline_s(timeout)
        while True:
            if self.poll():
                await self.serve_group()
            else:
                records = await self.read_some(max_records, deadline_s)
                if records is not None:
                    return records

    # What the group has committed.

    async def commit(
        self,
        offsets: ByPartition[int | OffsetAndMetadata] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - several requests share it
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
        group = self._grouped()
        chosen = self._started().positions() if offsets is None else checked_offsets(offsets)
        await group.commit(chosen, self._timeout_s if timeout is None else timeout)

    async def committed(
        self, partitions: Iterable[PartitionLike] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for partitions (None: for those that are read)."""
        group = self._grouped()
        wanted = self._started().states if partitions is None else map(as_partition, partitions)
        return await group.committed(list(wanted), self._timeout_s)

    def group_metadata(self) -> GroupMetadata:
        """The identity of this consumer in its group, for ``send_offsets_to_transaction``.

        Raises:
            CommitFailedError: it is no member of the group (any more).
            ConfigurationError: the consumer has no group.
        """
        return self._grouped().metadata()

    # Positions.

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offset behind what this consumer has given out, of each partition that is read.

        It is what ``commit`` stores, and what ``send_offsets_to_transaction`` takes.
        """
        return self._started().positions()

    async def seek(self, partition: PartitionLike, start: Start) -> None:
        """Go on elsewhere in a partition.

        Args:
            partition: one of those that are read.
            start: an offset, or whatever the class takes for ``start``.

        Raises:
            ConfigurationError: the partition is not read by this consumer.
        """
        fetcher = self._fetching()
        state = self._started().state_of(partition)
        place = place_of(start, integer_is_offset=True)
        state.move_to(place)
        self.stream.discard(state)
        if isinstance(place, Offset):
            state.begin_at(place.offset)
        else:
            await fetcher.resolve([state], self._timeout_s)
        fetcher.wake()

    async def position(self, partition: PartitionLike) -> int:
        """The offset of the next record that this consumer will give out of a partition.

        Raises:
            NoCommittedOffsetError: the group has none, and ``offset_reset`` is "error".
        """
        state = self._started().state_of(partition)
        while state.place is not None:
            if state.is_halted and state.halted_by is not None:
                raise copy.copy(state.halted_by)
            self._arrived.clear()
            await self._arrived.wait()
            self._started()
        return self.stream.position(state)

    async def offsets_for_times(
        self, times: ByPartition[TimeSpec]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time (ms or datetime) in each partition; None if none."""
        return await self._fetching().finder.find(checked_mapping(times), self._timeout_s)

    async def beginning_offsets(
        self, partitions: Iterable[PartitionLike] | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition (None: of those that are read)."""
        return await self._special_offsets(partitions, "earliest")

    async def end_offsets(
        self, partitions: Iterable[PartitionLike] | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last readable record of each partition (None: of all read)."""
        return await self._special_offsets(partitions, "latest")

    async def _special_offsets(
        self, partitions: Iterable[PartitionLike] | None, spec: TimeSpec
    ) -> dict[TopicPartition, int]:
        wanted = self._started().states if partitions is None else map(as_partition, partitions)
        return await self._started().ends(list(wanted), spec)

    async def stop_at_present_end(self) -> None:
        """Let reading end where the partitions end now."""
        await self._started().stop_at_present_end()

    def forget_end(self) -> None:
        """Let reading go on beyond the end that was set."""
        self._started().forget_end(stops_at_end=self._stop_at_end)


class _RecordIterator:
    """No generator: the first exception, such as a cancelled wait, would be the end of that."""

    __slots__ = ("_consumer", "_stream")

    def __init__(self, consumer: AsyncConsumer) -> None:
        self._consumer = consumer
        self._stream = consumer.stream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        consumer, stream = self._consumer, self._stream
        while True:
            stream.is_iterated = True
            if not stream.attention:
                for record in stream.current:
                    return record
            if consumer.poll():
                await consumer.serve_group()
            elif not (stream.is_in_batch or stream.load() or await consumer.wait_for_data()):
                raise StopAsyncIteration

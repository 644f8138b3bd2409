"""``AsyncConsumer``: reads records in order, from wherever one likes."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Any, Final, Self, Unpack

from seglog.clients.cluster import Cluster
from seglog.clients.config import ConsumerConfig, ConsumerOptions, make_config
from seglog.clients.consumer.fetcher import Fetcher
from seglog.clients.consumer.starts import (
    End,
    Offset,
    Start,
    Subscription,
    TopicsLike,
    parse_subscription,
    place_of,
)
from seglog.clients.consumer.state import Chunk, PartitionState
from seglog.clients.consumer.stream import RecordStream
from seglog.clients.errors import (
    ClientClosedError,
    ConfigurationError,
    UnknownTopicOrPartitionError,
)
from seglog.clients.models import OffsetAndTimestamp
from seglog.clients.offsets import (
    ByPartition,
    PartitionLike,
    TimeSpec,
    as_partition,
    checked_mapping,
)
from seglog.protocol.records.record import Record
from seglog.protocol.types import TopicPartition

READ_TIMEOUT_S: Final = 1.0
READ_RECORDS: Final = 500
READ_GRACE_S: Final = 0.01
"""How long ``read`` waits for more when it has got all that it knows of: the answer to the next
fetch, which is on its way already, would be there by then."""


class AsyncConsumer:
    """Reads the records of topics or of chosen partitions.

    Iterating yields each record as it comes, without end unless ``stop_at_end`` is set. Lost
    connections and restarts of the broker are waited out. Use it as ``async with``, or call
    ``start`` and ``close``. One task reads at a time.

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
        self.config = make_config(ConsumerConfig, options)
        self.cluster = Cluster(bootstrap_servers, self.config)
        self.stream = RecordStream(
            check_crcs=self.config.check_crcs,
            on_consumed=lambda chunk: self._tell_fetcher(Fetcher.consumed, chunk),
            on_broken=lambda chunk: self._tell_fetcher(Fetcher.restart, chunk),
        )
        self._subscription = parse_subscription(topics, start)
        self._stop_at_end = stop_at_end
        self._arrived = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0
        self._fetcher: Fetcher | None = None
        self._is_closed = False

    async def start(self) -> Self:
        """Connect, and find out where to begin; idempotent.

        Raises:
            BrokerUnreachableError: none of the bootstrap servers answers; names host and port.
            UnknownTopicOrPartitionError: a topic or partition does not exist.
        """
        await self.cluster.start()
        if self._fetcher is None:
            self._loop = asyncio.get_running_loop()
            self._thread_id = threading.get_ident()
            self._fetcher = Fetcher(self.config, self.cluster, self._put, self._arrived.set)
            self.cluster.add_listener(self._follow_topics)
            self.cluster.tasks.spawn(self._fetcher.run(), "seglog-fetcher")
            await self._begin(self._subscription)
        return self

    async def close(self) -> None:
        """Disconnect; idempotent. A reader that waits gets ``ClientClosedError``."""
        self._is_closed = True
        self._arrived.set()
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

    # What is read.

    async def subscribe(self, topics: TopicsLike, start: Start = "latest") -> None:
        """Read something else from now on; see the class for both arguments."""
        fetcher = self._started()
        for state in fetcher.states.values():
            state.move_to(Offset(0))
            self.stream.discard(state)
        fetcher.states.clear()
        self.cluster.unwatch([*self.cluster.topics])
        self._subscription = parse_subscription(topics, start)
        await self._begin(self._subscription)

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return sorted(self._started().states)

    def pause(self, partitions: Iterable[PartitionLike]) -> None:
        """Stop fetching these partitions until ``resume``; what is fetched already still comes."""
        for partition in partitions:
            self._state(partition).is_paused = True

    def resume(self, partitions: Iterable[PartitionLike]) -> None:
        """Go on with partitions that were paused."""
        for partition in partitions:
            self._state(partition).is_paused = False
        self._started().wake()

    # Reading.

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Yield record after record.

        Raises:
            OffsetOutOfRangeError: the position is not there and ``offset_reset`` is "error".
            CorruptRecordError: fetched bytes are damaged.
            BrokerError: the broker refuses for a reason that does not pass.
        """
        stream = self.stream
        self._started()
        while True:
            for record in stream.current:
                yield record
            if not stream.load() and not await self.wait_for_data():
                return

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
        timeout: float | None = READ_TIMEOUT_S,  # noqa: ASYNC109 - returns what is there, no error
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
        records: list[Record] = []
        self.stream.take(records, max_records)
        loop = asyncio.get_running_loop()
        deadline_s = None if timeout is None else loop.time() + timeout
        while len(records) < max_records and not self.stream.has_error:
            until_s = deadline_s
            if records and self._is_caught_up:
                grace_s = loop.time() + READ_GRACE_S
                until_s = grace_s if until_s is None else min(until_s, grace_s)
            try:
                async with asyncio.timeout_at(until_s):
                    if not await self.wait_for_data():
                        break
            except TimeoutError:
                break
            self.stream.take(records, max_records)
        return records

    @property
    def _is_caught_up(self) -> bool:
        return all(state.is_caught_up for state in self._started().states.values())

    async def wait_for_data(self) -> bool:
        """Wait until there is something to load; False when the end is reached."""
        fetcher = self._started()
        while not self.stream.has_chunks:
            if self._is_closed:
                raise ClientClosedError("the consumer is closed")
            states = fetcher.states.values()
            if states and all(state.is_at_stop for state in states):
                return False
            self._arrived.clear()
            await self._arrived.wait()
        return True

    # Positions.

    async def seek(self, partition: PartitionLike, start: Start) -> None:
        """Go on elsewhere in a partition.

        Args:
            partition: one of those that are read.
            start: an offset, or whatever the class takes for ``start``.

        Raises:
            ConfigurationError: the partition is not read by this consumer.
        """
        fetcher = self._started()
        state = self._state(partition)
        place = place_of(start, integer_is_offset=True)
        state.move_to(place)
        self.stream.discard(state)
        if isinstance(place, Offset):
            state.begin_at(place.offset)
        else:
            await fetcher.resolve([state], self.config.request_timeout_ms / 1000)
        fetcher.wake()

    async def position(self, partition: PartitionLike) -> int:
        """The offset of the next record that this consumer will give out of a partition."""
        state = self._state(partition)
        while state.place is not None:
            self._arrived.clear()
            await self._arrived.wait()
            self._started()
        return self.stream.position(state)

    async def offsets_for_times(
        self, times: ByPartition[TimeSpec]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time (ms or datetime) in each partition; None if none."""
        timeout_s = self.config.request_timeout_ms / 1000
        return await self._started().finder.find(checked_mapping(times), timeout_s)

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
        fetcher = self._started()
        wanted = fetcher.states if partitions is None else map(as_partition, partitions)
        answers = await fetcher.finder.find(
            dict.fromkeys(wanted, spec), self.config.request_timeout_ms / 1000
        )
        return {
            partition: answer.offset for partition, answer in answers.items() if answer is not None
        }

    # The end at which reading stops.

    async def stop_at_present_end(self) -> None:
        """Let reading end where the partitions end now."""
        fetcher = self._started()
        ends = await self.end_offsets()
        for partition, end in ends.items():
            fetcher.states[partition].stop_offset = end

    def forget_end(self) -> None:
        """Let reading go on beyond the end that was set."""
        fetcher = self._started()
        for state in fetcher.states.values():
            if state.stop_offset is None:
                continue
            state.stop_offset = None
            if state.place is None:
                # What was fetched beyond the end has been thrown away.
                position = self.stream.position(state)
                state.rewind(position)
                self.stream.discard(state)
        fetcher.wake()

    async def _begin(self, subscription: Subscription) -> None:
        fetcher = self._started()
        timeout_s = self.config.request_timeout_ms / 1000
        places = dict(subscription.partitions)
        for name in subscription.topics:
            known = await self.cluster.find_topic(name, timeout_s)
            for number in range(known.partition_count):
                places[TopicPartition(name, number)] = subscription.place
        states = [PartitionState(partition, place) for partition, place in places.items()]
        await fetcher.resolve(states, timeout_s)
        for state in states:
            known = await self.cluster.find_topic(state.partition.topic, timeout_s)
            if state.partition.partition >= known.partition_count:
                raise UnknownTopicOrPartitionError(
                    f"topic {known.name} has {known.partition_count} partitions, "
                    f"no {state.partition.partition}"
                )
            fetcher.states[state.partition] = state
        if self._stop_at_end:
            await self.stop_at_present_end()
        fetcher.wake()

    def _follow_topics(self) -> None:
        """Metadata is new: read partitions that were added, from their first record."""
        fetcher = self._fetcher
        if fetcher is None:
            return
        for name in self._subscription.topics:
            known = self.cluster.topics.get(name)
            has_begun = TopicPartition(name, 0) in fetcher.states
            if known is None or not has_begun or self._stop_at_end:
                continue
            for number in range(known.partition_count):
                partition = TopicPartition(name, number)
                if partition not in fetcher.states:
                    fetcher.states[partition] = PartitionState(partition, End.EARLIEST)
        fetcher.wake()

    def _put(self, chunk: Chunk) -> None:
        self.stream.put(chunk)
        self._arrived.set()

    def _tell_fetcher(self, method: Any, chunk: Chunk) -> None:
        fetcher, loop = self._fetcher, self._loop
        if fetcher is None or loop is None or loop.is_closed():
            return
        if threading.get_ident() == self._thread_id:
            method(fetcher, chunk)
        else:
            loop.call_soon_threadsafe(method, fetcher, chunk)

    def _started(self) -> Fetcher:
        if self._is_closed:
            raise ClientClosedError("the consumer is closed")
        if self._fetcher is None:
            raise ClientClosedError("the consumer is not started")
        return self._fetcher

    def _state(self, partition: PartitionLike) -> PartitionState:
        state = self._started().states.get(as_partition(partition))
        if state is None:
            raise ConfigurationError(f"{partition} is not read by this consumer")
        return state

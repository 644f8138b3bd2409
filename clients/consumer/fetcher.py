"""Keeps fetching ahead of the application, within a bound. Belongs to the loop.

One task decides what to ask; each request is a task of its own, with all partitions of a leader
that have room and are not being asked for already. Every trouble that can pass is waited out here,
so that a consumer survives restarts of the broker; what cannot pass is put into the stream.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from seglog.clients.cluster import Cluster
from seglog.clients.config import ConsumerConfig
from seglog.clients.consumer.starts import End, Last, Nowhere, Offset, Timestamp
from seglog.clients.consumer.state import UNKNOWN, Chunk, PartitionState
from seglog.clients.errors import (
    BrokerError,
    ClientError,
    CorruptRecordError,
    NoCommittedOffsetError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
    broker_error,
)
from seglog.clients.offsets import OffsetFinder, TimeSpec
from seglog.protocol.api import FetchPartition, FetchPartitionResult, FetchRequest, FetchResponse
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.batch import iter_batches
from seglog.protocol.records.resync import find_sound_batch
from seglog.protocol.types import TopicPartition
from seglog.protocol.wording import naming

REQUESTS_PER_BROKER: Final = 8
"""Requests under way to a broker at a time; usually it is one, with all partitions in it."""
_COPIED_BYTES: Final = 16_384
"""Smaller answers are copied: they would keep a whole receive buffer from being freed."""
_NOTHING: Final = memoryview(b"")
_NEVER: Final = float("inf")


class Fetcher:
    """Fetches the partitions in ``states``.

    Args:
        config: of the consumer.
        cluster: leaders and connections.
        put: takes fetched chunks.
        notify: called when a partition has got a position.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        put: Callable[[Chunk], object],
        notify: Callable[[], object],
    ) -> None:
        self.states: dict[TopicPartition, PartitionState] = {}
        self.finder = OffsetFinder(cluster, config.isolation_level)
        self._config = config
        self._cluster = cluster
        self._put = put
        self._notify = notify
        self._loop = asyncio.get_running_loop()
        self._wakeup = asyncio.Event()
        self._buffered_bytes = 0
        self._in_flight: dict[int, int] = {}

    def wake(self) -> None:
        """Something has changed; on the loop's thread."""
        self._wakeup.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            self._wakeup.clear()
            look_again_at_s = self._dispatch()
            timer = None
            if look_again_at_s != _NEVER:
                timer = self._loop.call_at(look_again_at_s, self._wakeup.set)
            try:
                await self._wakeup.wait()
            finally:
                if timer is not None:
                    timer.cancel()

    # What the reader tells; on the loop's thread.

    def consumed(self, chunk: Chunk) -> None:
        """A chunk has been read or thrown away: there is room again."""
        size = chunk.records.nbytes
        self._buffered_bytes -= size
        chunk.state.buffered_bytes -= size
        if chunk.error is not None and chunk.generation == chunk.state.generation:
            self._retry_later(chunk.state)
            chunk.state.is_halted = False
        self._wakeup.set()

    def restart(self, chunk: Chunk) -> None:
        """A chunk could not be read to its end: fetch again from where the reader is."""
        state = chunk.state
        if chunk.generation == state.generation:
            state.rewind(state.position)
            self._retry_later(state)
            self._wakeup.set()

    # Where to begin.

    async def resolve(self, states: Sequence[PartitionState], timeout_s: float) -> None:
        """Turn the places of ``states`` into offsets.

        Raises:
            UnknownTopicOrPartitionError: one does not exist.
            ClientTimeoutError, BrokerConnectionError: not found out in time.
            NoCommittedOffsetError: there is nothing to begin at.
        """
        places = {state.partition: (state, state.generation, state.place) for state in states}
        questions: dict[TopicPartition, TimeSpec] = {}
        offsets: dict[TopicPartition, int] = {}
        for partition, (_, _, place) in places.items():
            if isinstance(place, Offset):
                offsets[partition] = place.offset
            elif isinstance(place, Last):
                offsets[partition] = await self.finder.find_last(partition, place.count, timeout_s)
            elif isinstance(place, Nowhere):
                raise NoCommittedOffsetError(place.group, partition)
            elif place is not None:
                questions[partition] = _question_of(place)
        answers = await self.finder.find(questions, timeout_s)
        # Nothing at or after a time: go on with what comes next.
        beyond: dict[TopicPartition, TimeSpec] = {
            partition: "latest" for partition, answer in answers.items() if answer is None
        }
        answers.update(await self.finder.find(beyond, timeout_s))
        offsets.update(
            (partition, answer.offset)
            for partition, answer in answers.items()
            if answer is not None
        )
        for partition, (state, generation, _) in places.items():
            if state.generation == generation and partition in offsets:
                state.begin_at(offsets[partition])
        self._notify()
        self._wakeup.set()

    async def _resolve_later(self, state: PartitionState) -> None:
        generation = state.generation
        try:
            await self.resolve([state], self._config.request_timeout_ms / 1000)
        except NoCommittedOffsetError as error:
            if state.generation == generation:
                self._halt(state, error)
        except (ClientError, TimeoutError) as error:
            self._cluster.warn(
                "consumer: where to begin in %s: %s; trying again", state.partition, error
            )
            if state.generation == generation:
                self._retry_later(state)
        finally:
            if state.generation == generation:
                state.is_in_flight = False
            self._wakeup.set()

    # Fetching.

    def _dispatch(self) -> float:
        """Start the requests that can be started; returns when to look again."""
        now_s = self._loop.time()
        look_again_at_s = _NEVER
        by_leader: dict[int, list[PartitionState]] = {}
        for state in self.states.values():
            if state.is_of_old_topic and not state.buffered_bytes and not state.is_halted:
                self._begin_in_new_topic(state)
            if not self._wants_more(state):
                continue
            if state.retry_at_s > now_s:
                look_again_at_s = min(look_again_at_s, state.retry_at_s)
            elif state.stop_offset is not None and self._is_gone(state):
                # A reader without an end waits: the topic may be created anew.
                self._halt(
                    state,
                    UnknownTopicOrPartitionError(
                        f"{state.partition} was deleted before it was read to its end: at offset "
                        f"{state.fetch_offset} of {state.stop_offset}"
                    ),
                )
            elif state.place is not None:
                state.is_in_flight = True
                self._cluster.tasks.spawn(
                    self._resolve_later(state), f"seglog-offset-{state.partition}"
                )
            elif (leader := self._cluster.leader_of(state.partition)) is None:
                self._cluster.refresh_soon()
                self._retry_later(state)
                look_again_at_s = min(look_again_at_s, state.retry_at_s)
            else:
                by_leader.setdefault(leader, []).append(state)
        for leader, states in by_leader.items():
            if self._in_flight.get(leader, 0) < REQUESTS_PER_BROKER:
                self._in_flight[leader] = self._in_flight.get(leader, 0) + 1
                for state in states:
                    state.is_in_flight = True
                asked = {state.partition: (state, state.generation) for state in states}
                self._cluster.tasks.spawn(self._fetch(leader, asked), f"seglog-fetch-{leader}")
        return look_again_at_s

    def _is_gone(self, state: PartitionState) -> bool:
        """Whether the cluster has said twice that the partition does not exist.

        Once is not enough: a broker that has just started may not know of everything yet.
        """
        topic = self._cluster.topics.get(state.partition.topic)
        if topic is not None and state.partition.partition < topic.partition_count:
            state.missed_at = UNKNOWN
            return False
        if state.missed_at == UNKNOWN:
            state.missed_at = self._cluster.learned
        return state.missed_at != self._cluster.learned

    def _wants_more(self, state: PartitionState) -> bool:
        if state.is_in_flight or state.is_halted:
            return False
        if state.is_paused:
            return state.place is not None  # Its position can be asked for.
        is_stopped = state.stop_offset is not None and state.fetch_offset >= state.stop_offset
        if is_stopped and not state.is_beyond_end:
            return False
        share = self._config.prefetch_bytes // max(1, len(self.states))
        return self._buffered_bytes < self._config.prefetch_bytes and (
            state.buffered_bytes < max(share, self._config.partition_fetch_bytes)
        )

    async def _fetch(
        self, leader: int, asked: dict[TopicPartition, tuple[PartitionState, int]]
    ) -> None:
        config = self._config
        # One that has moved since this was decided has another request on its way.
        asked = {
            partition: (state, generation)
            for partition, (state, generation) in asked.items()
            if state.generation == generation
        }
        request = FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms if asked else 0,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            partitions=[
                FetchPartition(*state.partition, state.fetch_offset, config.partition_fetch_bytes)
                for state, _ in asked.values()
            ],
            isolation_level=config.isolation_level,
        )
        timeout_s = (config.fetch_max_wait_ms + config.request_timeout_ms) / 1000
        is_foreseen = False
        try:
            response: FetchResponse = await self._cluster.request(request, timeout_s, leader)
            if response.error is not ErrorCode.NONE:
                raise broker_error(response.error, None, "fetch")
        except ClientError as error:
            for state, generation in asked.values():
                if state.generation == generation:
                    self._handle_error(state, error)
            is_foreseen = True
        else:
            self._take(response, asked)
            is_foreseen = True
        finally:
            self._in_flight[leader] -= 1
            for state, generation in asked.values():
                # One that moved meanwhile has begun anew, perhaps with a request of its own.
                if state.generation == generation:
                    state.is_in_flight = False
                    if not is_foreseen:
                        self._retry_later(state)  # Not in a circle, each time with a traceback.
            self._wakeup.set()

    def _take(
        self, response: FetchResponse, asked: dict[TopicPartition, tuple[PartitionState, int]]
    ) -> None:
        for result in response.partitions:
            partition = TopicPartition(result.topic, result.partition)
            state, generation = asked.get(partition, (None, 0))
            if state is None or state.generation != generation or state.is_of_old_topic:
                continue
            if result.error is ErrorCode.NONE:
                if state.is_beyond_end:
                    # Readers of decided records stop earlier than others have come.
                    state.is_beyond_end = False
                    self._notify()
                if self._take_records(state, result) and partition in self.states:
                    # Served: the others come first in the next request, whose size is limited.
                    self.states[partition] = self.states.pop(partition)
            elif result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._handle_out_of_range(state, result)
            else:
                message = result.error_message
                self._handle_error(state, broker_error(result.error, message, str(partition)))

    def _take_records(self, state: PartitionState, result: FetchPartitionResult) -> bool:
        state.failures = 0
        state.high_watermark = result.high_watermark
        if result.aborted_transactions is not None:
            state.high_watermark = result.last_stable_offset
        records = result.records
        if not isinstance(records, memoryview) or not records.nbytes:
            return False
        next_offset, fault = _end_of(records)
        if fault is not None and next_offset <= state.fetch_offset:
            sound = find_sound_batch(records, 1, state.fetch_offset + 1)
            self._halt(
                state,
                CorruptRecordError(
                    state.partition,
                    state.fetch_offset,
                    fault.message,
                    None if sound is None else sound.base_offset,
                ),
            )
            return False
        if next_offset <= state.fetch_offset:
            # Nothing whole, or nothing at the offset or beyond it: asking at once would be a loop.
            self._cluster.warn(
                "consumer: %s: %d bytes, but nothing from offset %d on; trying again",
                state.partition,
                records.nbytes,
                state.fetch_offset,
            )
            self._retry_later(state)
            return False
        if records.nbytes < _COPIED_BYTES:
            records = memoryview(bytes(records))
        chunk = Chunk(state, records, result.aborted_transactions)
        state.fetch_offset = next_offset
        state.buffered_bytes += records.nbytes
        self._buffered_bytes += records.nbytes
        self._put(chunk)
        return True

    def _handle_error(self, state: PartitionState, error: ClientError) -> None:
        if isinstance(error, BrokerError) and error.code is ErrorCode.CORRUPT_MESSAGE:
            # Of bytes on a disk: asking again would be waiting for ever. The reason is the
            # broker's, which knows where sound records follow.
            self._halt(state, CorruptRecordError(state.partition, state.fetch_offset, str(error)))
            return
        if isinstance(error, BrokerError) and error.code.refreshes_metadata:
            self._cluster.refresh_soon()
        if error.retriable:
            self._cluster.warn("consumer: %s; trying again", naming(state.partition, error))
            self._retry_later(state)
        else:
            self._halt(state, error)

    def _handle_out_of_range(self, state: PartitionState, result: FetchPartitionResult) -> None:
        if state.doubted_at == UNKNOWN:
            # It may be the range of another topic of that name. Noticed only after a reset, it
            # would cause a second one, and the records read in between would come again.
            state.doubted_at = self._cluster.learned
            self._cluster.refresh_soon()
        if state.doubted_at == self._cluster.learned:
            self._retry_later(state)
            return
        error = OffsetOutOfRangeError(
            f"{state.partition}: offset {state.fetch_offset} is out of range, there are "
            f"{result.log_start_offset} to {result.high_watermark}",
            partition=state.partition,
            offset=state.fetch_offset,
            log_start_offset=result.log_start_offset,
            end_offset=result.high_watermark,
        )
        if state.buffered_bytes and self._config.offset_reset != "error":
            # Records already fetched are read first; then this happens again.
            self._retry_later(state)
        else:
            self._reset(state, error)

    def _begin_in_new_topic(self, state: PartitionState) -> None:
        """The fetched records of the old topic are read; it has no more."""
        if state.stop_offset is not None:
            # Reading ends where the old topic ended: that is here.
            state.stop_offset = 0
        error = OffsetOutOfRangeError(
            f"{state.partition}: the topic was deleted and made anew, offset {state.fetch_offset} "
            "means nothing in it",
            partition=state.partition,
            offset=state.fetch_offset,
        )
        self._reset(state, error)

    def _reset(self, state: PartitionState, error: OffsetOutOfRangeError) -> None:
        policy = self._config.offset_reset
        if policy == "error":
            self._halt(state, error)
        else:
            self._cluster.warn("consumer: %s; going on at the %s", error, policy)
            state.move_to(End(policy))

    def _halt(self, state: PartitionState, error: ClientError) -> None:
        """Let the reader know of an error behind what it has got; until then nothing is asked."""
        state.is_halted = True
        state.halted_by = error
        self._notify()
        self._put(Chunk(state, _NOTHING, None, error))

    def _retry_later(self, state: PartitionState) -> None:
        state.failures += 1
        state.retry_at_s = self._loop.time() + self._cluster.backoff.delay_s(state.failures)


def _end_of(records: memoryview) -> tuple[int, RecordError | None]:
    """Where the next fetch goes on, and what ends the walk before the end.

    Batches in front of damage are handed on all the same: the reader meets it behind them.
    """
    next_offset = UNKNOWN
    try:
        for batch in iter_batches(records):
            next_offset = max(next_offset, batch.header.next_offset)
    except RecordError as error:
        return next_offset, error
    return next_offset, None


def _question_of(place: End | Timestamp) -> TimeSpec:
    if isinstance(place, Timestamp):
        return place.timestamp_ms
    return place.value

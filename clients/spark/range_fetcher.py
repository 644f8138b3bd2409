"""Fetches ranges of offsets from their leaders, over blocking sockets; runs ahead on a thread."""

import threading
from collections.abc import Generator, Iterable
from typing import Final, NamedTuple

from seglog.clients.config import Address
from seglog.clients.consumer.aborted import AbortedFilter
from seglog.clients.errors import BrokerError, ClientError, CorruptRecordError, broker_error
from seglog.clients.sockets.connection import SocketConnection
from seglog.clients.sockets.pool import POOL
from seglog.clients.sockets.waiting import Waiter
from seglog.clients.spark.cluster import Cluster
from seglog.clients.spark.planning import LOG, report_loss
from seglog.clients.spark.source_options import SourceOptions
from seglog.clients.spark.splits import OffsetRange
from seglog.protocol.api import FetchPartition, FetchPartitionResult, FetchRequest, FetchResponse
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.batch import RecordBatch, iter_batches
from seglog.protocol.types import TopicPartition

_WAIT_MS: Final = 200
"""The broker waits for so long without records; planned records exist."""
_FIRST_GUESS_BYTES: Final = 1024
_FETCH_BYTES_MIN: Final = 65_536
_GONE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class FetchedRecords(NamedTuple):
    """Batches of a range from an offset on, as stored; those at the ends may reach beyond both."""

    range: OffsetRange
    first_offset: int
    batches: list[RecordBatch]


class _Reading:
    """How far a range is read.

    Attributes:
        position: the next offset.
        leader: where it is read, None for the one that the cluster names.
        trouble: why there was nothing last time: an error, or the loss in words.
    """

    def __init__(self, whole: OffsetRange) -> None:
        self.whole = whole
        self.position = whole.start
        self.leader = whole.leader
        self.trouble: ClientError | str | None = None

    @property
    def is_over(self) -> bool:
        return self.position >= self.whole.end


class RangeFetcher:
    """Fetches ranges, those with one leader by one request.

    What looks like loss (an end that went back, a topic that is gone, no answer with records) is
    asked again for as long as anything else is retried.

    Args:
        options: of the source.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = Cluster(options.servers, options.connection)
        self._timeout_s = options.connection.request_timeout_ms / 1000
        self._connection: SocketConnection | None = None
        self._stopped = threading.Event()
        self._bytes_per_offset = float(_FIRST_GUESS_BYTES)

    def interrupt(self) -> None:
        """End a fetch in flight, and the ones behind it; from another thread."""
        self._stopped.set()
        connection = self._connection
        if connection is not None:
            connection.close("the reading has ended")

    def run(self, ranges: tuple[OffsetRange, ...]) -> Generator[FetchedRecords]:
        """Yield the contents of the ranges; parts of several take turns, each in order.

        Raises:
            DataLossError: something is not there any more, with ``failOnDataLoss``.
            CorruptRecordError: a batch fails its checksum or makes no sense.
            ClientError: a broker refused, or was away for too long.
        """
        waiter = Waiter(self._options.connection, self._stopped)
        readings = [_Reading(each) for each in ranges]
        try:
            while readings and not self._stopped.is_set():
                has_got_on = False
                for reading, result in self._ask(readings):
                    before = reading.position
                    yield from self._take(reading, result)
                    has_got_on |= reading.position > before
                if has_got_on:
                    waiter.got_on()
                elif not waiter.pause():
                    self._give_up(readings)
                readings = [each for each in readings if not each.is_over]
        finally:
            self._release()

    # One request.

    def _ask(self, readings: list[_Reading]) -> list[tuple[_Reading, FetchPartitionResult]]:
        """Answers for ranges that have one leader; none if that fails with what may pass."""
        leader, asked = self._choose(readings)
        if leader is None:
            return []
        try:
            response = self._fetch(leader, asked)
        except ClientError as error:
            self._release(broken=True)
            self._fail(asked, error)
            return []
        by_partition = {(each.topic, each.partition): each for each in response.partitions}
        return [
            (each, by_partition[each.whole.partition])
            for each in asked
            if each.whole.partition in by_partition
        ]

    def _choose(self, readings: list[_Reading]) -> tuple[Address | None, list[_Reading]]:
        """Ranges for one request: of the first leader that is known, as many as may fit."""
        leader: Address | None = None
        chosen: dict[TopicPartition, _Reading] = {}
        room = float(self._options.fetch_bytes)
        for reading in readings:
            where = self._leader_of(reading)
            if where is None or (leader is not None and where != leader):
                continue
            if reading.whole.partition in chosen:
                continue  # A request names each partition once.
            leader = where
            chosen[reading.whole.partition] = reading
            room -= (reading.whole.end - reading.position) * self._bytes_per_offset
            if room <= 0:
                break
        return leader, list(chosen.values())

    def _leader_of(self, reading: _Reading) -> Address | None:
        if reading.leader is None:
            try:
                reading.leader = self._cluster.leader(reading.whole.partition)
            except ClientError as error:
                self._fail([reading], error)
        return reading.leader

    def _fetch(self, leader: Address, asked: list[_Reading]) -> FetchResponse:
        limit = self._options.fetch_bytes
        partitions = []
        for each in asked:
            left = each.whole.end - each.position
            size = min(limit, int(left * self._bytes_per_offset * 1.1) + _FETCH_BYTES_MIN)
            partitions.append(
                FetchPartition(
                    *each.whole.partition, each.position, size, topic_id=each.whole.topic_id
                )
            )
        total = min(limit, sum(each.max_bytes for each in partitions))
        request = FetchRequest(_WAIT_MS, 1, total, partitions, self._options.isolation_level)
        if self._connection is None or self._connection.address != leader:
            self._release()
            self._connection = self._cluster.connect(leader)
        response: FetchResponse = self._connection.request(request, self._timeout_s)
        if response.error is not ErrorCode.NONE:
            raise broker_error(response.error, None, "fetch")
        return response

    def _fail(self, readings: Iterable[_Reading], error: ClientError) -> None:
        """Note an error that may pass, and ask for the leader next time; raises any other."""
        if self._stopped.is_set():
            return
        for reading in readings:
            is_gone = isinstance(error, BrokerError) and error.code in _GONE
            if not (error.retriable or is_gone):
                raise error
            if reading.trouble is None:
                LOG.info("%s: %s; trying again", reading.whole.partition, error)
            reading.trouble, reading.leader = error, None
            self._cluster.forget(reading.whole.partition.topic)

    def _release(self, *, broken: bool = False) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if broken:
            connection.close("broken")
        else:
            POOL.release(connection, self._options.connection)

    # What an answer says about one range.

    def _take(self, reading: _Reading, result: FetchPartitionResult) -> Generator[FetchedRecords]:
        whole, position = reading.whole, reading.position
        if result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            if position < result.log_start_offset:
                first = min(result.log_start_offset, whole.end)
                self._lose(reading, first, f"available are {result.log_start_offset} and above")
                reading.position = first
            else:
                reading.trouble = f"the log ends at {result.high_watermark}"
            return
        if result.error is not ErrorCode.NONE:
            self._fail(
                [reading], broker_error(result.error, result.error_message, str(whole.partition))
            )
            return
        batches, next_offset, size = self._walk(reading, result)
        if next_offset <= position:
            # Also where the answer had no room left for this partition.
            reading.trouble = f"the log ends at {min(result.high_watermark, whole.end)}"
            return
        self._bytes_per_offset = size / (next_offset - position)
        reading.position, reading.trouble = next_offset, None
        yield FetchedRecords(whole, position, batches)

    def _walk(
        self, reading: _Reading, result: FetchPartitionResult
    ) -> tuple[list[RecordBatch], int, int]:
        """Check the batches of an answer; those with rows, where they end, how large they are."""
        whole = reading.whole
        view = result.records if isinstance(result.records, memoryview) else memoryview(b"")
        aborted = AbortedFilter(result.aborted_transactions or ())
        is_committed = result.aborted_transactions is not None
        batches = []
        next_offset, size = reading.position, 0
        try:
            for batch in iter_batches(view):
                header = batch.header
                if header.base_offset >= whole.end:
                    next_offset = whole.end  # A hole up to the end; the rest is another range's.
                    break
                if self._options.check_crcs:
                    batch.check()
                size += header.size_bytes
                next_offset = max(next_offset, header.next_offset)
                left_out = is_committed and aborted.leaves_out(batch)
                if not (left_out or header.is_control) and header.record_count:
                    batches.append(batch)
        except RecordError as error:
            raise CorruptRecordError(whole.partition, next_offset, error.message) from error
        return batches, next_offset, size

    # Data loss.

    def _give_up(self, readings: Iterable[_Reading]) -> None:
        """The time for retries is over for these ranges, and nothing of them got on."""
        if self._stopped.is_set():
            return
        for reading in readings:
            trouble = reading.trouble
            if isinstance(trouble, ClientError):
                if not (isinstance(trouble, BrokerError) and trouble.code in _GONE):
                    raise trouble
                trouble = "the topic does not exist any more"
            self._lose(reading, reading.whole.end, trouble or "the broker gives no answer for it")
            reading.position = reading.whole.end

    def _lose(self, reading: _Reading, lost_end: int, reason: str) -> None:
        report_loss(
            f"{reading.whole.partition}: offsets {reading.position} to {lost_end - 1} were planned "
            f"and cannot be read: {reason}",
            fail=self._options.fail_on_data_loss,
        )

"""Fetches ranges of offsets from their leaders, over blocking sockets; runs ahead on a thread."""

import time
from collections.abc import Generator
from typing import Final, NamedTuple

from seglog.clients.config import Address
from seglog.clients.consumer.aborted import AbortedFilter
from seglog.clients.errors import BrokerError, ClientError, CorruptRecordError, broker_error
from seglog.clients.spark.arrow_batches import RecordsArea
from seglog.clients.spark.cluster import Cluster
from seglog.clients.spark.connection import POOL, BlockingConnection
from seglog.clients.spark.planning import LOG, report_loss
from seglog.clients.spark.source_options import SourceOptions
from seglog.clients.spark.splits import OffsetRange
from seglog.protocol.api import FetchPartition, FetchPartitionResult, FetchRequest, FetchResponse
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.batch import iter_batches

_CONNECT_TIMEOUT_S: Final = 10.0
_WAIT_MS: Final = 200
"""The broker waits for so long if nothing is there; what was planned is there."""
_FIRST_GUESS_BYTES: Final = 1024
_FETCH_BYTES_MIN: Final = 65_536
_EMPTY_ANSWERS_MAX: Final = 5
_GONE_FOR_GOOD_S: Final = 2.0
_GONE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class FetchedRecords(NamedTuple):
    """Batches of a range from an offset on; those at the ends may reach beyond both."""

    range: OffsetRange
    first_offset: int
    areas: list[RecordsArea]
    is_last: bool


class RangeFetcher:
    """Fetches ranges one after the other.

    Args:
        options: of the source.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = Cluster(options.servers, options.connection)
        self._timeout_s = options.connection.request_timeout_ms / 1000
        self._connection: BlockingConnection | None = None
        self._has_failed = False

    def interrupt(self) -> None:
        """Make a fetch that is under way fail; from another thread."""
        connection = self._connection
        if connection is not None:
            connection.close()

    def run(self, ranges: tuple[OffsetRange, ...]) -> Generator[FetchedRecords]:
        """Yield what is in the ranges.

        Raises:
            DataLossError: something is not there any more, with ``failOnDataLoss``.
            CorruptRecordError: a batch fails its checksum or makes no sense.
            ClientError: a broker refused, or was away for too long.
        """
        try:
            for each in ranges:
                yield from self._run_range(each)
        finally:
            self._release()

    def _run_range(self, whole: OffsetRange) -> Generator[FetchedRecords]:
        position = whole.start
        bytes_per_offset = float(_FIRST_GUESS_BYTES)
        empty_answers = 0
        while position < whole.end:
            result = self._fetch(whole, position, bytes_per_offset)
            if result is None:
                break
            if result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                position = self._skip_lost(whole, position, result)
                continue
            areas, next_offset, size = self._walk(whole, position, result)
            if next_offset > position:
                empty_answers = 0
                bytes_per_offset = size / (next_offset - position)
                yield FetchedRecords(whole, position, areas, next_offset >= whole.end)
                position = next_offset
                if position >= whole.end:
                    return
                continue
            empty_answers += 1
            if empty_answers == _EMPTY_ANSWERS_MAX:
                end = min(result.high_watermark, whole.end)
                self._lose(whole, position, f"the log ends at {end}")
                break
        # Also where nothing was found: whoever assembles learns that the range is over.
        yield FetchedRecords(whole, position, [], True)

    def _walk(
        self, whole: OffsetRange, position: int, result: FetchPartitionResult
    ) -> tuple[list[RecordsArea], int, int]:
        """Check and inflate the batches of an answer; where they end and how large they are."""
        view = result.records if isinstance(result.records, memoryview) else memoryview(b"")
        aborted = AbortedFilter(result.aborted_transactions or ())
        is_committed = result.aborted_transactions is not None
        areas = []
        next_offset, size = position, 0
        try:
            for batch in iter_batches(view):
                header = batch.header
                if header.base_offset >= whole.end:
                    next_offset = whole.end  # A hole up to the end, and what follows is not ours.
                    break
                if self._options.check_crcs:
                    batch.check()
                size += header.size_bytes
                next_offset = max(next_offset, header.next_offset)
                left_out = is_committed and aborted.leaves_out(batch)
                if not (left_out or header.is_control) and header.record_count:
                    areas.append(RecordsArea(header, batch.records_area()))
        except RecordError as error:
            raise CorruptRecordError(whole.partition, next_offset, error.message) from error
        return areas, next_offset, size

    # One answer, or the knowledge that there will be none.

    def _fetch(
        self, whole: OffsetRange, position: int, bytes_per_offset: float
    ) -> FetchPartitionResult | None:
        """The answer for a position, None where the topic is gone."""
        wanted = int((whole.end - position) * bytes_per_offset * 1.1) + _FETCH_BYTES_MIN
        size = min(wanted, self._options.fetch_bytes)
        asked = FetchPartition(*whole.partition, position, size, topic_id=whole.topic_id)
        request = FetchRequest(_WAIT_MS, 1, size, [asked], self._options.isolation_level)
        deadline_s = time.monotonic() + self._options.connection.retry_timeout_ms / 1000
        gone_until_s = min(deadline_s, time.monotonic() + _GONE_FOR_GOOD_S)
        while True:
            try:
                return self._ask(whole, request)
            except ClientError as error:
                self._release(broken=True)
                self._has_failed = True
                is_gone = isinstance(error, BrokerError) and error.code in _GONE
                # A broker that has just restarted may not know its topics yet.
                if is_gone and time.monotonic() > gone_until_s:
                    self._lose(whole, position, "the topic does not exist any more")
                    return None
                if not error.retriable or not self._cluster.pause(deadline_s):
                    raise
                LOG.info("%s; trying again", error)
                self._cluster.forget(whole.partition.topic)

    def _ask(self, whole: OffsetRange, request: FetchRequest) -> FetchPartitionResult:
        leader = None if self._has_failed else whole.leader
        connection = self._connect(leader or self._cluster.leader(whole.partition))
        response: FetchResponse = connection.request(request, self._timeout_s)
        if response.error is not ErrorCode.NONE:
            raise broker_error(response.error, None, "fetch")
        (result,) = response.partitions
        if result.error not in {ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE}:
            raise broker_error(result.error, result.error_message, str(whole.partition))
        return result

    def _connect(self, leader: Address) -> BlockingConnection:
        if self._connection is None or self._connection.address != leader:
            self._release()
            self._connection = POOL.acquire(
                leader, self._options.connection.client_id, _CONNECT_TIMEOUT_S
            )
        return self._connection

    def _release(self, *, broken: bool = False) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if broken:
            connection.close()
        else:
            POOL.release(connection, self._options.connection.client_id)

    # Data loss.

    def _skip_lost(self, whole: OffsetRange, position: int, result: FetchPartitionResult) -> int:
        """Where to go on after an offset that is out of range."""
        if position < result.log_start_offset:
            first = min(result.log_start_offset, whole.end)
            self._lose(whole, position, f"available are {result.log_start_offset} and above", first)
            return first
        self._lose(whole, position, f"the log ends at {result.high_watermark}")
        return whole.end

    def _lose(
        self, whole: OffsetRange, position: int, reason: str, lost_end: int | None = None
    ) -> None:
        last = (whole.end if lost_end is None else lost_end) - 1
        report_loss(
            f"{whole.partition}: offsets {position} to {last} were planned and cannot be read: "
            f"{reason}",
            fail=self._options.fail_on_data_loss,
        )

"""Reading one partition for a fetch request: permission, end of the range, result.

Nothing of a record is looked at: a result holds a slice of a segment file.
"""

from typing import Final

from seglog.broker.errors import RequestError, describe_error
from seglog.broker.partition.partition import Partition
from seglog.broker.requests.services import Services
from seglog.broker.storage.errors import (
    CorruptLogError,
    DeferredReadError,
    OffsetOutOfRangeError,
)
from seglog.broker.storage.log.log import FetchIsolation
from seglog.protocol.api import (
    ZERO_TOPIC_ID,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
)
from seglog.protocol.errors import ErrorCode, SeglogError
from seglog.protocol.types import IsolationLevel

_LEADER_ERRORS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""What a client is told the right leader beside, so that it need not ask for metadata."""
_DEBUG_CONSUMER: Final = -2
"""A replica id that is no replica's: reads up to the log end."""


class PartitionReads:
    """Reads partitions, one after the other.

    Args:
        services: of the broker.
    """

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def read(
        self, request: FetchRequest, entry: FetchPartition, max_bytes: int, min_one_message: bool
    ) -> FetchPartitionResult:
        """What a request gets of a partition; an error is part of the result.

        Args:
            request: whose isolation level and replica id count.
            entry: where to read; gets its topic's name if it has only the id.
            max_bytes: of batches.
            min_one_message: whether the first batch is read whole, however large.

        Raises:
            DeferredReadError: another thread has to do something first.
        """
        try:
            if not entry.topic:
                entry.topic = self._services.partitions.topic_name(entry.topic_id)
            partition = self._services.partitions.get(entry.topic, entry.partition)
            _check_entry(partition, entry, request.replica_id)
            diverging = _diverging_epoch(partition, entry)
            if diverging is not None:
                return _without_records(partition, entry, diverging)
            data = partition.log.read(
                entry.fetch_offset,
                max_bytes,
                isolation=isolation_of(request),
                min_one_message=min_one_message,
            )
        except OffsetOutOfRangeError as error:
            offsets = self._services.partitions.get(entry.topic, entry.partition).log.offsets
            return FetchPartitionResult(
                entry.topic,
                entry.partition,
                error.code,
                offsets.high_watermark,
                offsets.last_stable,
                offsets.log_start,
                error_message=str(error),
                topic_id=entry.topic_id,
            )
        except DeferredReadError:
            raise
        except SeglogError as error:
            return self._refuse(entry, error)
        return FetchPartitionResult(
            entry.topic,
            entry.partition,
            ErrorCode.NONE,
            data.high_watermark,
            data.last_stable_offset,
            data.log_start_offset,
            data.slice,
            data.aborted_transactions,
            None,
            None,
            entry.topic_id,
        )

    def refuse_all(self, request: FetchRequest, error: SeglogError) -> FetchResponse:
        """The response if the work of a read failed, and it is unknown for which partition."""
        return FetchResponse([self._refuse(entry, error) for entry in request.partitions])

    def _refuse(self, entry: FetchPartition, error: SeglogError) -> FetchPartitionResult:
        self._note_damage(entry, error)
        code, message = describe_error(error)
        return FetchPartitionResult(
            entry.topic,
            entry.partition,
            code,
            error_message=message,
            topic_id=entry.topic_id,
            current_leader=self._current_leader(entry) if code in _LEADER_ERRORS else None,
        )

    def _note_damage(self, entry: FetchPartition, error: SeglogError) -> None:
        """Count a read that met damaged records, and have health tell of them."""
        if isinstance(error, CorruptLogError):
            self._services.counters.damaged_reads += 1
            partition = self._services.partitions.find(entry.topic, entry.partition)
            if partition is not None:
                partition.damage = str(error)

    def _current_leader(self, entry: FetchPartition) -> tuple[int, int] | None:
        """The leader of a partition and its epoch, for a client with other metadata."""
        partition = self._services.partitions.find(entry.topic, entry.partition)
        return None if partition is None else (self._services.node_id, partition.leader_epoch)


def isolation_of(request: FetchRequest) -> FetchIsolation:
    """The end of the log for this reader."""
    if request.replica_id == _DEBUG_CONSUMER:
        return FetchIsolation.LOG_END
    if request.isolation_level == IsolationLevel.READ_COMMITTED:
        return FetchIsolation.TXN_COMMITTED
    return FetchIsolation.HIGH_WATERMARK


def _check_entry(partition: Partition, entry: FetchPartition, replica_id: int) -> None:
    """Check the sender and its view of the partition.

    Raises:
        RequestError: another topic of the same name, another leader epoch, or a follower that this
            partition does not have.
    """
    topic_id = partition.log.topic_id
    if topic_id is not None and entry.topic_id not in (ZERO_TOPIC_ID, topic_id):
        raise RequestError(
            ErrorCode.INCONSISTENT_TOPIC_ID,
            f"{entry.topic} has the id {topic_id.hex()}, not {entry.topic_id.hex()}",
        )
    if replica_id >= 0:
        raise RequestError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"broker {replica_id} is no replica of {partition.topic_partition}",
        )
    partition.check_epoch(entry.current_leader_epoch)


def _diverging_epoch(partition: Partition, entry: FetchPartition) -> tuple[int, int] | None:
    """Where the client's log parts from this one (FETCH-9): epoch and end offset, or None."""
    if entry.last_fetched_epoch < 0:
        return None
    epoch, end_offset = partition.end_offset_for_epoch(entry.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        offsets = partition.log.offsets
        raise OffsetOutOfRangeError(entry.fetch_offset, offsets.log_start, offsets.log_end)
    if epoch < entry.last_fetched_epoch or end_offset < entry.fetch_offset:
        return epoch, end_offset
    return None


def _without_records(
    partition: Partition, entry: FetchPartition, diverging_epoch: tuple[int, int]
) -> FetchPartitionResult:
    offsets = partition.log.offsets
    return FetchPartitionResult(
        entry.topic,
        entry.partition,
        high_watermark=offsets.high_watermark,
        last_stable_offset=offsets.last_stable,
        log_start_offset=offsets.log_start,
        diverging_epoch=diverging_epoch,
        topic_id=entry.topic_id,
    )

"""DeleteRecords: raise the log start offset of partitions.

The new start is on disk before it is acknowledged, so that a broker that is killed afterwards does
not bring deleted records back. (Kafka writes it with the next checkpoint, up to a minute later.)
Also unlike Kafka, a topic whose only cleanup policy is compact may be cut: people who have to erase
something need it there as much as elsewhere.
"""

from collections.abc import Sequence

from seglog.broker.errors import RequestError, describe_error
from seglog.broker.partition.partition import Partition
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.services import Services
from seglog.broker.storage.files.layout import INTERNAL_TOPICS
from seglog.protocol.api import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResult,
)
from seglog.protocol.errors import ErrorCode, SeglogError


class DeleteRecordsOperation:
    """Answers delete-records requests."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: DeleteRecordsRequest, _context: RequestContext
    ) -> DeleteRecordsResponse | Pending[DeleteRecordsResponse]:
        """Put the new starts on disk, then cut every partition, then answer."""
        wanted: list[tuple[DeleteRecordsResult, Partition]] = []
        response = DeleteRecordsResponse([])
        for entry in request.partitions:
            result = DeleteRecordsResult(entry.topic, entry.partition)
            response.partitions.append(result)
            try:
                partition, result.low_watermark = self._find(entry)
            except SeglogError as error:
                result.error, result.error_message = describe_error(error)
            else:
                wanted.append((result, partition))
        if not wanted:
            return response
        return self._services.begin(self._cut(response, wanted), holds_input=False)

    def _find(self, entry: DeleteRecordsPartition) -> tuple[Partition, int]:
        """The partition, and the log start that it is to have."""
        if entry.topic in INTERNAL_TOPICS:
            raise RequestError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{entry.topic} is internal: its records cannot be deleted",
            )
        partition = self._services.partitions.get(entry.topic, entry.partition)
        if partition.log_dir.read_only_reason is not None:
            raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR, partition.log_dir.read_only_reason)
        return partition, partition.log.log_start_for(entry.offset)

    async def _cut(
        self,
        response: DeleteRecordsResponse,
        wanted: Sequence[tuple[DeleteRecordsResult, Partition]],
    ) -> DeleteRecordsResponse:
        services = self._services
        starts = {partition.log: result.low_watermark for result, partition in wanted}
        errors = await services.background.store_log_starts(starts)
        for result, partition in wanted:
            error: SeglogError | None = errors.get(partition.log_dir)
            if error is None:
                try:
                    result.low_watermark = partition.delete_records_before(result.low_watermark)
                except SeglogError as refusal:
                    error = refusal
            if error is not None:
                # Nothing was cut: a request that is answered with an error has no effect.
                result.low_watermark = -1
                result.error, result.error_message = describe_error(error)
        if services.partitions.full_directories:
            # A client that deletes records while the disk is full wants the room now.
            done = {result.topic for result in response.partitions if not result.error}
            await services.background.run_retention(only=done)
            await services.background.make_room()
        return response

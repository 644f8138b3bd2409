"""DeleteRecords: raise the log start offset of partitions.

The new start is on disk before it is acknowledged, so that a broker that is killed afterwards does
not bring deleted records back. (Kafka writes it with the next checkpoint, up to a minute later.)
Also unlike Kafka, a topic whose only cleanup policy is compact may be cut: people who have to erase
something need it there as much as elsewhere.
"""

from seglog.broker.api.context import Pending, RequestContext
from seglog.broker.api.services import Services
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.storage.layout import INTERNAL_TOPICS
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
        """Cut every partition now, and answer once that is durable."""
        results = [self._delete(entry) for entry in request.partitions]
        response = DeleteRecordsResponse(results)
        if all(result.error != ErrorCode.NONE for result in results):
            return response
        return self._services.begin(self._make_durable(response), holds_input=False)

    def _delete(self, entry: DeleteRecordsPartition) -> DeleteRecordsResult:
        result = DeleteRecordsResult(entry.topic, entry.partition)
        try:
            if entry.topic in INTERNAL_TOPICS:
                raise RequestError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"{entry.topic} is internal: its records cannot be deleted",
                )
            partition = self._services.partitions.get(entry.topic, entry.partition)
            result.low_watermark = partition.delete_records_before(entry.offset)
        except SeglogError as error:
            result.error, result.error_message = describe_error(error)
        return result

    async def _make_durable(self, response: DeleteRecordsResponse) -> DeleteRecordsResponse:
        services = self._services
        error = await services.background.checkpoint_log_starts()
        cut = [result for result in response.partitions if result.error == ErrorCode.NONE]
        if error is not None:
            code, message = describe_error(error)
            for result in cut:
                # Readers see the cut already; a restart may undo it.
                result.error, result.error_message = code, message
        elif services.partitions.full_directories:
            # Whoever deletes records while the disk is full wants the room now.
            services.background.run_retention(only={result.topic for result in cut})
            await services.background.make_room()
        return response

"""Compacting the partitions of a topic on demand."""

import asyncio

from seglog.broker.api.context import Pending, RequestContext
from seglog.broker.api.services import Services
from seglog.broker.cleaning.jobs import CleaningOutcome
from seglog.broker.cleaning.log_cleaner import LogCleaner
from seglog.broker.errors import RequestError, describe_error
from seglog.protocol.api import CleanLogResult, CleanLogsRequest, CleanLogsResponse
from seglog.protocol.errors import ErrorCode, SeglogError
from seglog.protocol.types import TopicPartition


class CleanLogsOperation:
    """Answers clean-logs requests."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: CleanLogsRequest, _context: RequestContext
    ) -> CleanLogsResponse | Pending[CleanLogsResponse]:
        """Have partitions cleaned; with ``wait`` the answer comes when that is done."""
        services = self._services
        numbers = request.partitions
        if numbers is None:
            topic = services.catalog.get(request.topic)
            # Partition 0 of an unknown topic carries the error.
            numbers = list(range(1 if topic is None else topic.partition_count))
        results: list[CleanLogResult] = []
        asked: list[tuple[CleanLogResult, asyncio.Future[CleaningOutcome]]] = []
        for number in numbers:
            result = CleanLogResult(request.topic, number, "queued")
            results.append(result)
            try:
                cleaner = self._check(request.topic, number)
            except SeglogError as error:
                result.state = "failed"
                result.error, result.error_message = describe_error(error)
                continue
            asked.append((result, cleaner.clean_now(TopicPartition(request.topic, number))))
        response = CleanLogsResponse(results)
        if not request.wait or not asked:
            return response
        return services.begin(_wait_for(asked, response), holds_input=False)

    def _check(self, topic: str, number: int) -> LogCleaner:
        services = self._services
        partition = services.partitions.get(topic, number)
        if services.cleaner is None:
            raise RequestError(ErrorCode.INVALID_REQUEST, "log.cleaner.enable is false")
        if not partition.log.config.compacts:
            policy = ",".join(sorted(partition.log.config.cleanup_policy)) or "empty"
            raise RequestError(
                ErrorCode.INVALID_REQUEST,
                f"topic {topic} is not compacted: its cleanup.policy is {policy}",
            )
        return services.cleaner


async def _wait_for(
    asked: list[tuple[CleanLogResult, "asyncio.Future[CleaningOutcome]"]],
    response: CleanLogsResponse,
) -> CleanLogsResponse:
    for result, future in asked:
        try:
            outcome = await asyncio.shield(future)
        except asyncio.CancelledError:
            if not future.cancelled():
                raise
            result.state, result.error = "failed", ErrorCode.NOT_LEADER_OR_FOLLOWER
            result.error_message = "the broker is stopping"
            continue
        result.bytes_read, result.bytes_written = outcome.bytes_read, outcome.bytes_written
        result.size_before, result.size_after = outcome.size_before, outcome.size_after
        result.state = "done"
        if outcome.error is not None:
            result.state = "failed"
            result.error, result.error_message = describe_error(outcome.error)
    return response

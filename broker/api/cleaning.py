"""Compacting the partitions of a topic on demand."""

import asyncio
from dataclasses import replace

from seglog.broker.cleaning.jobs import CleaningOutcome
from seglog.broker.cleaning.log_cleaner import LogCleaner
from seglog.broker.errors import RequestError, describe_error
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.services import Services
from seglog.broker.runtime.workers import WorkersStoppedError
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
        asked: list[tuple[CleanLogResult, LogCleaner]] = []
        for number in numbers:
            result = CleanLogResult(request.topic, number, "queued")
            results.append(result)
            try:
                cleaner = self._check(request.topic, number)
            except SeglogError as error:
                result.state = "failed"
                result.error, result.error_message = describe_error(error)
                continue
            asked.append((result, cleaner))
        response = CleanLogsResponse(results)
        if not asked:
            return response
        if request.wait:
            return services.begin(self._clean(asked, response), holds_input=False)
        # The present answer says "queued", with any outcome of the pass.
        own = [(replace(result), cleaner) for result, cleaner in asked]
        services.begin(self._clean(own, response), holds_input=False)
        return response

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

    async def _clean(
        self, asked: list[tuple[CleanLogResult, LogCleaner]], response: CleanLogsResponse
    ) -> CleanLogsResponse:
        await asyncio.gather(*(self._clean_one(*each) for each in asked))
        return response

    async def _clean_one(self, result: CleanLogResult, cleaner: LogCleaner) -> None:
        # A pass ends where nothing is on disk yet: it would skip the segment that was just rolled.
        partition = self._services.partitions.find(result.topic, result.partition)
        try:
            if partition is not None:
                await asyncio.shield(partition.flush())
        except SeglogError as error:
            result.state = "failed"
            result.error, result.error_message = describe_error(error)
            return
        except WorkersStoppedError:
            _say_stopping(result)
            return
        cleaning = cleaner.clean_now(TopicPartition(result.topic, result.partition))
        try:
            _say_outcome(result, await asyncio.shield(cleaning))
        except asyncio.CancelledError:
            if not cleaning.cancelled():
                raise
            _say_stopping(result)


def _say_stopping(result: CleanLogResult) -> None:
    result.state, result.error = "failed", ErrorCode.NOT_LEADER_OR_FOLLOWER
    result.error_message = "the broker is stopping"


def _say_outcome(result: CleanLogResult, outcome: CleaningOutcome) -> None:
    result.bytes_read, result.bytes_written = outcome.bytes_read, outcome.bytes_written
    result.size_before, result.size_after = outcome.size_before, outcome.size_after
    result.state = "done"
    if outcome.error is not None:
        result.state = "failed"
        result.error, result.error_message = describe_error(outcome.error)

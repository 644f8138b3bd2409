"""Looking into logs, and running housekeeping now instead of at its next time."""

from collections.abc import Iterable

from seglog.broker.errors import RequestError, describe_error
from seglog.broker.partition.partition import Partition
from seglog.broker.requests.context import Pending, RequestContext
from seglog.broker.requests.services import Services
from seglog.broker.runtime.turns import in_turns
from seglog.broker.storage.files.layout import parent_directory
from seglog.protocol.api import (
    DescribePartitionsRequest,
    DescribePartitionsResponse,
    PartitionDescription,
    RetentionFinding,
    RollSegmentsRequest,
    RollSegmentsResponse,
    RollSegmentsResult,
    RunRetentionRequest,
    RunRetentionResponse,
    SegmentDescription,
)
from seglog.protocol.errors import ErrorCode, SeglogError


class DescribePartitionsOperation:
    """Answers describe-partitions requests."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: DescribePartitionsRequest, _context: RequestContext
    ) -> Pending[DescribePartitionsResponse]:
        """Describe every partition of the topics, ordered by topic and number."""
        return self._services.begin(self._describe_all(request), holds_input=False)

    async def _describe_all(self, request: DescribePartitionsRequest) -> DescribePartitionsResponse:
        catalog = self._services.catalog
        names = request.topics
        if names is None:
            names = sorted(topic.name for topic in catalog.topics())
        response = DescribePartitionsResponse([])
        for name in dict.fromkeys(names):
            topic = catalog.get(name)
            if topic is None:
                response.unknown_topics.append(name)
                continue
            async for number in in_turns(range(topic.partition_count)):
                response.partitions.append(
                    self._describe(name, number, with_segments=request.include_segments)
                )
        return response

    def _describe(self, topic: str, number: int, *, with_segments: bool) -> PartitionDescription:
        try:
            partition = self._services.partitions.get(topic, number)
            return self._describe_log(partition, with_segments=with_segments)
        except SeglogError as error:
            return PartitionDescription(topic, number, *describe_error(error))

    def _describe_log(self, partition: Partition, *, with_segments: bool) -> PartitionDescription:
        log = partition.log
        topic, number = log.topic_partition
        offsets = log.offsets
        description = PartitionDescription(
            topic,
            number,
            log_dir=parent_directory(log.directory),
            leader_epoch=partition.leader_epoch,
            log_start_offset=offsets.log_start,
            last_stable_offset=offsets.last_stable,
            high_watermark=offsets.high_watermark,
            log_end_offset=offsets.log_end,
            recovery_point=offsets.recovery_point,
            size_bytes=log.segment_bytes_total,
            segment_count=len(log.segments),
            damage=partition.damage or None,
        )
        cleaner = self._services.cleaner
        if cleaner is not None and log.config.compacts:
            cleanable = cleaner.look_at(log)
            description.first_dirty_offset = cleanable.first_dirty_offset
            description.cleanable_ratio = cleanable.ratio
            description.uncleanable_reason = cleaner.uncleanable.get(log.topic_partition)
            description.cleaning_state = cleaner.state_of(log.topic_partition).value
            done, total = cleaner.progress_of(log.topic_partition)
            description.cleaning_bytes_done, description.cleaning_bytes_total = done, total
        if with_segments:
            description.segments = [
                SegmentDescription(
                    segment.base_offset,
                    segment.next_offset(),
                    segment.size_bytes,
                    segment.largest_timestamp_ms,
                    segment.offset_index.entries,
                    segment.time_index.entries,
                )
                for segment in log.segments
            ]
        return description


class RunRetentionOperation:
    """Answers requests to run retention now, or to say what it would delete."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: RunRetentionRequest, _context: RequestContext
    ) -> Pending[RunRetentionResponse]:
        """Apply the retention rules to the named topics."""
        return self._services.begin(self._run(request), holds_input=False)

    async def _run(self, request: RunRetentionRequest) -> RunRetentionResponse:
        services = self._services
        background = services.background
        try:
            only = None if request.topics is None else _known_topics(services, request.topics)
            apply = background.find_obsolete if request.dry_run else background.run_retention
            findings = await apply(only=only)
        except SeglogError as error:
            code, message = describe_error(error)
            return RunRetentionResponse([], code, message)
        return RunRetentionResponse(
            [
                RetentionFinding(
                    finding.topic_partition.topic,
                    finding.topic_partition.partition,
                    finding.base_offset,
                    finding.size_bytes,
                    finding.reason,
                )
                for finding in findings
            ]
        )


class RollSegmentsOperation:
    """Answers requests to begin new segments."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: RollSegmentsRequest, _context: RequestContext
    ) -> Pending[RollSegmentsResponse]:
        """Roll the partitions of a topic; an active segment that is empty stays."""
        services = self._services
        numbers = request.partitions
        if numbers is None:
            topic = services.catalog.get(request.topic)
            # Partition 0 of an unknown topic carries the error.
            numbers = list(range(1 if topic is None else topic.partition_count))
        return services.begin(self._roll_all(request.topic, numbers), holds_input=False)

    async def _roll_all(self, topic: str, numbers: list[int]) -> RollSegmentsResponse:
        return RollSegmentsResponse(
            [self._roll(topic, number) async for number in in_turns(numbers)]
        )

    def _roll(self, topic: str, number: int) -> RollSegmentsResult:
        result = RollSegmentsResult(topic, number)
        try:
            partition = self._services.partitions.get(topic, number)
            result.active_base_offset = partition.roll(self._services.clock.time_ms())
        except SeglogError as error:
            result.error, result.error_message = describe_error(error)
        return result


def _known_topics(services: Services, names: Iterable[str]) -> set[str]:
    wanted = set(names)
    for name in wanted:
        if services.catalog.get(name) is None:
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name[:260]!r}"
            )
    return wanted

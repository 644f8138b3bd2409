"""What clients ask about the cluster beyond metadata: itself, topics by page, ends of epochs."""

from seglog.broker.api.metadata import MetadataOperation, this_broker
from seglog.broker.errors import describe_error
from seglog.broker.requests.context import RequestContext
from seglog.broker.requests.permissions import ALL_CLUSTER_OPERATIONS, ALL_TOPIC_OPERATIONS
from seglog.broker.requests.services import Services
from seglog.protocol.api import (
    ZERO_TOPIC_ID,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    OffsetForLeaderEpochPartition,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResult,
    TopicMetadata,
)
from seglog.protocol.errors import ErrorCode, SeglogError

_ENDPOINTS_OF_BROKERS = 1
_ENDPOINTS_OF_CONTROLLERS = 2


class DescribeClusterOperation:
    """Answers describe-cluster requests."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: DescribeClusterRequest, context: RequestContext
    ) -> DescribeClusterResponse:
        """Name this broker, where the listener that was asked is reached."""
        services = self._services
        if request.endpoint_type != _ENDPOINTS_OF_BROKERS:
            error, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "there is no such endpoint type"
            if request.endpoint_type == _ENDPOINTS_OF_CONTROLLERS:
                error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
                message = "this is a broker, not a controller"
            return DescribeClusterResponse(
                services.cluster_id,
                error=error,
                error_message=f"{message}: endpoint type {request.endpoint_type}",
                endpoint_type=request.endpoint_type,
            )
        response = DescribeClusterResponse(
            services.cluster_id, services.node_id, [this_broker(services, context)]
        )
        if request.include_authorized_operations:
            response.authorized_operations = ALL_CLUSTER_OPERATIONS
        return response


class DescribeTopicPartitionsOperation:
    """Answers describe-topic-partitions requests: metadata page by page, by name."""

    __slots__ = ("_metadata", "_services")

    def __init__(self, services: Services, metadata: MetadataOperation) -> None:
        self._services = services
        self._metadata = metadata

    def handle(
        self, request: DescribeTopicPartitionsRequest, _context: RequestContext
    ) -> DescribeTopicPartitionsResponse:
        """One page, beginning at the cursor."""
        services = self._services
        limit = max(
            1,
            min(
                request.response_partition_limit,
                services.config.max_request_partition_size_limit,
            ),
        )
        first_topic, first_partition = request.cursor or ("", 0)
        if first_partition < 0:
            # Followed, it would lead to itself for ever.
            return DescribeTopicPartitionsResponse(
                [
                    TopicMetadata(name, ZERO_TOPIC_ID, [], ErrorCode.INVALID_REQUEST)
                    for name in sorted({*request.topics, first_topic})
                ]
            )
        names = request.topics or [topic.name for topic in services.catalog.topics()]
        topics: list[TopicMetadata] = []
        for name in sorted(set(names)):
            if name < first_topic:
                continue
            if limit <= 0:
                return DescribeTopicPartitionsResponse(topics, (name, 0))
            topic = self._metadata.describe_topic(name)
            start = first_partition if name == first_topic else 0
            page = topic.partitions[start : start + limit]
            following = start + len(page)
            is_cut = following < len(topic.partitions)
            topic.partitions = page
            if not topic.error:
                # This request has no word to ask for them; Kafka tells always.
                topic.authorized_operations = ALL_TOPIC_OPERATIONS
            topics.append(topic)
            limit -= len(page)
            if is_cut:
                return DescribeTopicPartitionsResponse(topics, (name, following))
        return DescribeTopicPartitionsResponse(topics)


class OffsetForLeaderEpochOperation:
    """Answers questions where a leader epoch ended, by which clients notice truncation."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: OffsetForLeaderEpochRequest, _context: RequestContext
    ) -> OffsetForLeaderEpochResponse:
        """Look every partition up; each has its own result."""
        return OffsetForLeaderEpochResponse([self._look_up(entry) for entry in request.partitions])

    def _look_up(self, entry: OffsetForLeaderEpochPartition) -> OffsetForLeaderEpochResult:
        result = OffsetForLeaderEpochResult(entry.topic, entry.partition)
        try:
            partition = self._services.partitions.get(entry.topic, entry.partition)
            partition.check_epoch(entry.current_leader_epoch)
        except SeglogError as error:
            result.error, _ = describe_error(error)
            return result
        result.leader_epoch, result.end_offset = partition.end_offset_for_epoch(entry.leader_epoch)
        return result

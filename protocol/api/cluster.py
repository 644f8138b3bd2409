"""What clients ask about the cluster beyond plain metadata."""

from seglog.protocol.api.topics import BrokerMetadata, TopicMetadata
from seglog.protocol.declaration.keys import AUTHORIZED_OPERATIONS_NOT_REQUESTED
from seglog.protocol.declaration.shape import field, shape
from seglog.protocol.errors import ErrorCode


@shape
class DescribeClusterRequest:
    """Describe the cluster; ``endpoint_type`` is 1 for brokers, 2 for controllers."""

    include_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False


@shape
class DescribeClusterResponse:
    """The cluster as the broker sees it."""

    cluster_id: str
    controller_id: int = -1
    brokers: list[BrokerMetadata] = field(default_factory=list)
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    endpoint_type: int = 1
    authorized_operations: int = AUTHORIZED_OPERATIONS_NOT_REQUESTED
    throttle_time_ms: int = 0


@shape
class DescribeTopicPartitionsRequest:
    """Describe topics in the order of their names, page by page.

    No topics means all of them; ``cursor`` is the ``(topic, partition)`` at which to go on.
    """

    topics: list[str]
    response_partition_limit: int = 2000
    cursor: tuple[str, int] | None = None


@shape
class DescribeTopicPartitionsResponse:
    """A page of topics; ``next_cursor`` is None on the last one."""

    topics: list[TopicMetadata]
    next_cursor: tuple[str, int] | None = None
    throttle_time_ms: int = 0

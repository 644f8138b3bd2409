"""Metadata, and creating, growing and deleting topics."""

from seglog.protocol.api.configs import ConfigEntry
from seglog.protocol.declaration.keys import AUTHORIZED_OPERATIONS_NOT_REQUESTED, ZERO_TOPIC_ID
from seglog.protocol.declaration.shape import field, shape
from seglog.protocol.errors import ErrorCode


@shape
class MetadataRequest:
    """Describe topics, by name or id; None means all of them."""

    topics: list[str] | None = None
    topic_ids: list[bytes] = field(default_factory=list)
    allow_auto_topic_creation: bool = False
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


@shape
class BrokerMetadata:
    """Where a broker is reached on the listener that was asked."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@shape
class PartitionMetadata:
    """Leader and replicas of one partition."""

    partition: int
    leader_id: int
    leader_epoch: int
    replica_ids: list[int]
    isr_ids: list[int]
    error: ErrorCode = ErrorCode.NONE
    offline_replica_ids: list[int] = field(default_factory=list)


@shape
class TopicMetadata:
    """One topic; ``name`` is None where an id was asked for that is not known."""

    name: str | None
    topic_id: bytes
    partitions: list[PartitionMetadata]
    error: ErrorCode = ErrorCode.NONE
    is_internal: bool = False
    error_message: str | None = None
    authorized_operations: int = AUTHORIZED_OPERATIONS_NOT_REQUESTED


@shape
class MetadataResponse:
    """The cluster as the broker sees it."""

    brokers: list[BrokerMetadata]
    cluster_id: str
    controller_id: int
    topics: list[TopicMetadata]
    error: ErrorCode = ErrorCode.NONE
    throttle_time_ms: int = 0
    authorized_operations: int = AUTHORIZED_OPERATIONS_NOT_REQUESTED


@shape
class NewTopic:
    """A topic to create; -1 for partitions or replication factor takes the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: dict[str, str | None] = field(default_factory=dict)
    assignments: dict[int, list[int]] = field(default_factory=dict)


@shape
class CreateTopicsRequest:
    """Create topics, or with ``validate_only`` say what creating them would answer."""

    topics: list[NewTopic]
    timeout_ms: int = 30000
    validate_only: bool = False


@shape
class CreateTopicResult:
    """What became of one topic."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topic_id: bytes = ZERO_TOPIC_ID
    partitions: int = -1
    replication_factor: int = -1
    configs: list[ConfigEntry] = field(default_factory=list)


@shape
class CreateTopicsResponse:
    """One result a topic."""

    topics: list[CreateTopicResult]
    throttle_time_ms: int = 0


@shape
class DeleteTopicsRequest:
    """Delete topics by name or id.

    ``named_twofold`` are those that were given both, which is refused: nobody knows which of the
    two is meant where they differ.
    """

    names: list[str] = field(default_factory=list)
    topic_ids: list[bytes] = field(default_factory=list)
    timeout_ms: int = 30000
    named_twofold: list[tuple[str, bytes]] = field(default_factory=list)


@shape
class DeleteTopicResult:
    """What became of one topic."""

    name: str | None
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topic_id: bytes = ZERO_TOPIC_ID


@shape
class DeleteTopicsResponse:
    """One result a topic."""

    topics: list[DeleteTopicResult]
    throttle_time_ms: int = 0


@shape
class NewPartitions:
    """Grow a topic to ``count`` partitions."""

    name: str
    count: int
    assignments: list[list[int]] | None = None


@shape
class CreatePartitionsRequest:
    """Grow topics."""

    topics: list[NewPartitions]
    timeout_ms: int = 30000
    validate_only: bool = False


@shape
class CreatePartitionsResult:
    """What became of one topic."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@shape
class CreatePartitionsResponse:
    """One result a topic."""

    topics: list[CreatePartitionsResult]
    throttle_time_ms: int = 0

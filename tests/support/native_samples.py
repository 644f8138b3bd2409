"""One filled request and response of every native operation, for golden files and round trips."""

from typing import Any

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import (
    AlterConfigOperation,
    ConfigResourceType,
    ConfigSource,
    IsolationLevel,
)
from support.native_group_samples import (
    cluster_samples,
    group_admin_samples,
    membership_samples,
    offset_samples,
    producer_samples,
    transaction_samples,
)

TOPIC_ID = bytes(range(16))
RECORDS = b"batches of zero"
MORE_RECORDS = b"batches of one"
_ENTRY = api.ConfigEntry(
    "segment.bytes",
    "1048576",
    ConfigSource.TOPIC,
    is_read_only=True,
    is_sensitive=True,
    value_type="int",
    documentation="Size.",
    synonyms=[api.ConfigSynonym("log.segment.bytes", None, ConfigSource.DEFAULT)],
)


def hello_bytes() -> tuple[str, str, str]:
    """Client id, software name and version that the golden hellos carry."""
    return "app-1", "golden", "1.2"


def samples() -> dict[ApiKey, tuple[Any, Any]]:
    """Request and response by operation; record fields are views, as a decoder gives them."""
    return (
        _data_samples()
        | _topic_samples()
        | _config_samples()
        | _housekeeping_samples()
        | membership_samples()
        | group_admin_samples()
        | offset_samples()
        | producer_samples()
        | transaction_samples()
        | cluster_samples()
    )


def _data_samples() -> dict[ApiKey, tuple[Any, Any]]:
    return {
        ApiKey.PRODUCE: (
            api.ProduceRequest(
                -1,
                30000,
                [
                    api.ProducePartition("flights", 0, memoryview(RECORDS)),
                    api.ProducePartition("flights", 1, memoryview(MORE_RECORDS), TOPIC_ID),
                    api.ProducePartition("flights", 2, None),
                ],
                "tx",
                may_add=True,
            ),
            api.ProduceResponse(
                [
                    api.ProducePartitionResult(
                        "flights",
                        0,
                        ErrorCode.INVALID_RECORD,
                        336776,
                        1372896000000,
                        5,
                        [(0, "no key")],
                        "refused",
                        TOPIC_ID,
                    )
                ],
                7,
            ),
        ),
        ApiKey.FETCH: (
            api.FetchRequest(
                500,
                1,
                52428800,
                [api.FetchPartition("flights", 2, 2**40, 1048576, 3, topic_id=TOPIC_ID)],
                IsolationLevel.READ_COMMITTED,
            ),
            api.FetchResponse(
                [
                    api.FetchPartitionResult(
                        "flights", 0, ErrorCode.NONE, 90, 80, 10, memoryview(RECORDS), [(1000, 42)]
                    ),
                    api.FetchPartitionResult(
                        "flights",
                        1,
                        ErrorCode.OFFSET_OUT_OF_RANGE,
                        error_message="gone",
                        topic_id=TOPIC_ID,
                    ),
                ],
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                throttle_time_ms=7,
            ),
        ),
        ApiKey.LIST_OFFSETS: (
            api.ListOffsetsRequest(
                [api.ListOffsetsPartition("flights", 0, 1372896000000, 4)],
                IsolationLevel.READ_COMMITTED,
                timeout_ms=30000,
            ),
            api.ListOffsetsResponse(
                [
                    api.ListOffsetsResult(
                        "flights", 0, ErrorCode.UNKNOWN_LEADER_EPOCH, 1372896000000, 9, 4, "late"
                    )
                ],
                7,
            ),
        ),
        ApiKey.DELETE_RECORDS: (
            api.DeleteRecordsRequest([api.DeleteRecordsPartition("flights", 0, -1)], 5000),
            api.DeleteRecordsResponse(
                [api.DeleteRecordsResult("flights", 0, ErrorCode.POLICY_VIOLATION, 12, "no")], 7
            ),
        ),
    }


def _topic_samples() -> dict[ApiKey, tuple[Any, Any]]:
    partition = api.PartitionMetadata(0, 1, 2, [1, 2], [1], ErrorCode.LEADER_NOT_AVAILABLE, [2])
    return {
        ApiKey.METADATA: (
            api.MetadataRequest(["flights"], [TOPIC_ID], allow_auto_topic_creation=True),
            api.MetadataResponse(
                [api.BrokerMetadata(1, "localhost", 9092, "rack-a")],
                "cluster",
                1,
                [
                    api.TopicMetadata(
                        "flights", TOPIC_ID, [partition], ErrorCode.UNKNOWN_TOPIC_ID, True, "why"
                    )
                ],
                ErrorCode.NOT_CONTROLLER,
                7,
            ),
        ),
        ApiKey.CREATE_TOPICS: (
            api.CreateTopicsRequest(
                [api.NewTopic("flights", 3, 1, {"cleanup.policy": None}, {0: [1, 2], 1: [2]})],
                5000,
                validate_only=True,
            ),
            api.CreateTopicsResponse(
                [
                    api.CreateTopicResult(
                        "flights",
                        ErrorCode.TOPIC_ALREADY_EXISTS,
                        "there",
                        TOPIC_ID,
                        3,
                        1,
                        [_ENTRY],
                    )
                ],
                7,
            ),
        ),
        ApiKey.DELETE_TOPICS: (
            api.DeleteTopicsRequest(["flights"], [TOPIC_ID], 5000),
            api.DeleteTopicsResponse(
                [api.DeleteTopicResult(None, ErrorCode.UNKNOWN_TOPIC_ID, "gone", TOPIC_ID)], 7
            ),
        ),
        ApiKey.CREATE_PARTITIONS: (
            api.CreatePartitionsRequest([api.NewPartitions("flights", 5, [[1]])], 5000, True),
            api.CreatePartitionsResponse(
                [api.CreatePartitionsResult("flights", ErrorCode.INVALID_PARTITIONS, "fewer")], 7
            ),
        ),
    }


def _config_samples() -> dict[ApiKey, tuple[Any, Any]]:
    return {
        ApiKey.DESCRIBE_CONFIGS: (
            api.DescribeConfigsRequest(
                [api.ConfigResource(ConfigResourceType.TOPIC, "flights", ["segment.bytes"])],
                include_synonyms=True,
                include_documentation=True,
            ),
            api.DescribeConfigsResponse(
                [
                    api.DescribeConfigsResult(
                        99, "flights", ErrorCode.INVALID_REQUEST, "what", [_ENTRY]
                    )
                ],
                7,
            ),
        ),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (
            api.AlterConfigsRequest(
                [
                    api.AlterConfigResource(
                        ConfigResourceType.BROKER,
                        "",
                        [api.ConfigChange("log.flush.ms", AlterConfigOperation.APPEND, "1")],
                        replace_all=True,
                    )
                ],
                validate_only=True,
            ),
            api.AlterConfigsResponse(
                [
                    api.AlterConfigsResult(
                        ConfigResourceType.BROKER, "", ErrorCode.INVALID_CONFIG, "unknown key"
                    )
                ],
                7,
            ),
        ),
    }


def _housekeeping_samples() -> dict[ApiKey, tuple[Any, Any]]:
    partition = api.PartitionDescription(
        "flights",
        0,
        ErrorCode.KAFKA_STORAGE_ERROR,
        "is offline: why",
        "/data",
        *range(1, 9),
        first_dirty_offset=9,
        cleanable_ratio=0.5,
        uncleanable_reason="broken",
        cleaning_state="in progress",
        cleaning_bytes_done=10,
        cleaning_bytes_total=11,
        segments=[api.SegmentDescription(0, 100, 4096, 1372896000000, 3, 2)],
        damage="lost",
    )
    return {
        ApiKey.DESCRIBE_LOG_DIRS: (
            api.DescribeLogDirsRequest([("flights", 0)]),
            api.DescribeLogDirsResponse(
                [
                    api.LogDirDescription(
                        "/data",
                        ErrorCode.KAFKA_STORAGE_ERROR,
                        [api.LogDirPartition("flights", 0, 2**40, 3, is_future=True)],
                        2**41,
                        2**40,
                        "is offline: why",
                    )
                ],
                7,
            ),
        ),
        ApiKey.DESCRIBE_PARTITIONS: (
            api.DescribePartitionsRequest(["flights"], include_segments=True),
            api.DescribePartitionsResponse([partition], ["none"]),
        ),
        ApiKey.RUN_RETENTION: (
            api.RunRetentionRequest(["flights"], dry_run=True),
            api.RunRetentionResponse(
                [api.RetentionFinding("flights", 0, 100, 4096, "retention.ms")],
                ErrorCode.INVALID_REQUEST,
                "why",
            ),
        ),
        ApiKey.CLEAN_LOGS: (
            api.CleanLogsRequest("flights", [0], wait=True),
            api.CleanLogsResponse(
                [
                    api.CleanLogResult(
                        "flights", 0, "failed", ErrorCode.INVALID_REQUEST, "why", 1, 2, 3, 4
                    )
                ]
            ),
        ),
        ApiKey.ROLL_SEGMENTS: (
            api.RollSegmentsRequest("flights", [0]),
            api.RollSegmentsResponse(
                [api.RollSegmentsResult("flights", 0, ErrorCode.INVALID_REQUEST, 100, "why")]
            ),
        ),
    }

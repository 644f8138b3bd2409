"""Every operation in every version: requests can be read, refused, and answered in full."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka import codec
from seglog.protocol.kafka.operations import ALL_OPERATIONS
from seglog.protocol.kafka.schema import Struct
from seglog.protocol.types import ConfigResourceType, ConfigSource
from support.kafka_messages import generic_of, random_message

CASES = [
    pytest.param(operation, version, id=f"{operation.key.name}-{version}")
    for operation in ALL_OPERATIONS
    for version in operation.versions.versions()
]
SERVED = [
    pytest.param(operation, version, id=f"{operation.key.name}-{version}")
    for operation in ALL_OPERATIONS
    for version in operation.served.versions()
]
TOPIC_ID = bytes(range(16))
SYNONYM = api.ConfigSynonym("retention.ms", "1", ConfigSource.TOPIC)
ENTRY = api.ConfigEntry(
    "retention.ms", "1", ConfigSource.TOPIC, True, True, "long", "How long.", [SYNONYM]
)
PARTITION = api.PartitionMetadata(7, 1, 2, [1, 2], [1], ErrorCode.LEADER_NOT_AVAILABLE, [2])
TOPIC = api.TopicMetadata(
    "topic", TOPIC_ID, [PARTITION], ErrorCode.NONE, True, "message", authorized_operations=8
)
BROKER = api.BrokerMetadata(1, "host", 9092, "rack")
FULL_RESPONSES: dict[ApiKey, Any] = {
    ApiKey.PRODUCE: api.ProduceResponse(
        [
            api.ProducePartitionResult(
                "topic", 7, ErrorCode.INVALID_RECORD, 1, 2, 3, [(4, "m")], "message", TOPIC_ID
            )
        ],
        9,
    ),
    ApiKey.FETCH: api.FetchResponse(
        [
            api.FetchPartitionResult(
                "topic", 7, ErrorCode.NONE, 5, 4, 3, memoryview(b"records"), [(8, 9)], None,
                "message", TOPIC_ID,
            )
        ],
        throttle_time_ms=9,
    ),
    ApiKey.LIST_OFFSETS: api.ListOffsetsResponse(
        [api.ListOffsetsResult("topic", 7, ErrorCode.NONE, 5, 6, 7, "message")], 9
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: api.OffsetForLeaderEpochResponse(
        [api.OffsetForLeaderEpochResult("topic", 7, ErrorCode.NONE, 5, 6)], 9
    ),
    ApiKey.DELETE_RECORDS: api.DeleteRecordsResponse(
        [api.DeleteRecordsResult("topic", 7, ErrorCode.NONE, 5, "message")], 9
    ),
    ApiKey.METADATA: api.MetadataResponse(
        [BROKER], "cluster", 1, [TOPIC], ErrorCode.NONE, 9, authorized_operations=16
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: api.DescribeTopicPartitionsResponse([TOPIC], ("u", 3), 9),
    ApiKey.CREATE_TOPICS: api.CreateTopicsResponse(
        [api.CreateTopicResult("topic", ErrorCode.NONE, "message", TOPIC_ID, 3, 1, [ENTRY])], 9
    ),
    ApiKey.DELETE_TOPICS: api.DeleteTopicsResponse(
        [api.DeleteTopicResult("topic", ErrorCode.NONE, "message", TOPIC_ID)], 9
    ),
    ApiKey.CREATE_PARTITIONS: api.CreatePartitionsResponse(
        [api.CreatePartitionsResult("topic", ErrorCode.NONE, "message")], 9
    ),
    ApiKey.DESCRIBE_CONFIGS: api.DescribeConfigsResponse(
        [
            api.DescribeConfigsResult(
                ConfigResourceType.TOPIC, "topic", ErrorCode.NONE, "message", [ENTRY]
            )
        ],
        9,
    ),
    ApiKey.ALTER_CONFIGS: api.AlterConfigsResponse(
        [api.AlterConfigsResult(ConfigResourceType.TOPIC, "topic", ErrorCode.NONE, "message")], 9
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: api.AlterConfigsResponse(
        [api.AlterConfigsResult(ConfigResourceType.TOPIC, "topic", ErrorCode.NONE, "message")], 9
    ),
    ApiKey.DESCRIBE_CLUSTER: api.DescribeClusterResponse(
        "cluster", 1, [BROKER], ErrorCode.NONE, "message", 1, 16, 9
    ),
    ApiKey.DESCRIBE_LOG_DIRS: api.DescribeLogDirsResponse(
        [
            api.LogDirDescription(
                "/data", ErrorCode.NONE, [api.LogDirPartition("topic", 7, 100, 5, True)], 10, 5
            )
        ],
        9,
    ),
    ApiKey.FIND_COORDINATOR: api.FindCoordinatorResponse(
        [api.Coordinator("group", 1, "host", 9092, ErrorCode.NONE, "message")], 9
    ),
    ApiKey.JOIN_GROUP: api.JoinGroupResponse(
        "member", ErrorCode.NONE, 5, "consumer", "range", "leader", True,
        [api.JoinedMember("member", None, b"metadata")], 9,
    ),
    ApiKey.SYNC_GROUP: api.SyncGroupResponse(
        ErrorCode.NONE, "consumer", "range", b"assignment", 9
    ),
    ApiKey.HEARTBEAT: api.HeartbeatResponse(ErrorCode.REBALANCE_IN_PROGRESS, 9),
    ApiKey.LEAVE_GROUP: api.LeaveGroupResponse(
        [api.LeaveGroupResult("member", "static", ErrorCode.UNKNOWN_MEMBER_ID)],
        ErrorCode.NONE,
        9,
    ),
    ApiKey.OFFSET_COMMIT: api.OffsetCommitResponse(
        [api.OffsetCommitResult("topic", 7, ErrorCode.NONE, TOPIC_ID)], 9
    ),
    ApiKey.OFFSET_FETCH: api.OffsetFetchResponse(
        [
            api.OffsetFetchGroupResult(
                "group",
                [api.OffsetFetchResult("topic", 7, 5, 6, "meta", ErrorCode.NONE, TOPIC_ID)],
            )
        ],
        9,
    ),
    ApiKey.OFFSET_DELETE: api.OffsetDeleteResponse(
        [api.OffsetDeleteResult("topic", 7, ErrorCode.NONE)], ErrorCode.NONE, 9
    ),
    ApiKey.LIST_GROUPS: api.ListGroupsResponse(
        [api.ListedGroup("group", "consumer", "Stable")], ErrorCode.NONE, 9
    ),
    ApiKey.DESCRIBE_GROUPS: api.DescribeGroupsResponse(
        [
            api.GroupDescription(
                "group", ErrorCode.NONE, "message", "Stable", "consumer", "range",
                [api.GroupMemberDescription("member", "static", "c", "/h", b"m", b"a")], 8,
            )
        ],
        9,
    ),
    ApiKey.DELETE_GROUPS: api.DeleteGroupsResponse(
        [api.DeleteGroupResult("group", ErrorCode.NON_EMPTY_GROUP, "message")], 9
    ),
    ApiKey.INIT_PRODUCER_ID: api.InitProducerIdResponse(ErrorCode.NONE, 1000, 2, 9),
    ApiKey.DESCRIBE_PRODUCERS: api.DescribeProducersResponse(
        [
            api.DescribeProducersResult(
                "topic", 7, ErrorCode.NONE, "message", [api.ActiveProducer(1, 2, 3, 4, 5, 6)]
            )
        ],
        9,
    ),
    ApiKey.LIST_TRANSACTIONS: api.ListTransactionsResponse(
        [api.ListedTransaction("tx", 5, "Ongoing")], ["Odd"], ErrorCode.NONE, 9
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: api.AddPartitionsToTxnResponse(
        [api.TransactionPartitionsResult("tx", [api.AddPartitionsToTxnResult("topic", 7)])],
        throttle_time_ms=9,
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: api.AddOffsetsToTxnResponse(ErrorCode.CONCURRENT_TRANSACTIONS, 9),
    ApiKey.END_TXN: api.EndTxnResponse(ErrorCode.NONE, 1000, 2, 9),
    ApiKey.WRITE_TXN_MARKERS: api.WriteTxnMarkersResponse(
        [
            api.TransactionEndResult(
                1000,
                [
                    api.TransactionEndPartitionResult(
                        "topic", 7, ErrorCode.TRANSACTION_COORDINATOR_FENCED
                    )
                ],
            )
        ]
    ),
    ApiKey.TXN_OFFSET_COMMIT: api.TxnOffsetCommitResponse(
        [api.OffsetCommitResult("topic", 7)], 9
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: api.DescribeTransactionsResponse(
        [api.TransactionDescription("tx", ErrorCode.NONE, "Ongoing", 5, 6, 7, 8, [("topic", 7)])],
        9,
    ),
}  # fmt: skip
"""A response with something in every field, for every operation."""


def leaves(value: Any, version: int) -> Iterator[tuple[str, Any]]:
    """The names and values of all carried fields, at any depth."""
    for each in value.__fields__:
        if not (each.is_plain_in(version) or each.is_tagged_in(version)):
            continue
        inner = getattr(value, each.name)
        for item in inner if isinstance(inner, list) else [inner]:
            if isinstance(item, Struct):
                yield from leaves(item, version)
            else:
                yield each.name, bytes(item) if isinstance(item, memoryview) else item


def decoded(operation: Any, parts: Any, version: int) -> Any:
    data = b"".join(bytes(part) for part in parts)
    message, position = codec.decode(generic_of(operation.response), version, memoryview(data))
    assert position == len(data)
    return message


def test_operation_is_forgotten_in_the_samples() -> None:
    """A new operation comes with its sample."""
    assert set(FULL_RESPONSES) == {operation.key for operation in ALL_OPERATIONS}


@pytest.mark.parametrize(("operation", "version"), SERVED)
def test_response_loses_a_field_that_the_version_carries(operation: Any, version: int) -> None:
    """Every carried field of the sample arrives with a value of its own, in every version."""
    response = FULL_RESPONSES[operation.key]
    message = decoded(operation, operation.encode(response, version), version)
    expected = list(leaves(message, version))
    empty = {
        "error_code", "topic_config_error_code", "finalized_features_epoch", "is_fenced",
        "is_cordoned", "preferred_read_replica", "session_id", "current_leader", "snapshot_id",
        "node_endpoints", "diverging_epoch", "eligible_leader_replicas", "last_known_elr",
    }  # fmt: skip
    for name, value in expected:
        if name not in empty and not name.endswith("instance_id"):
            assert value not in (None, "", -1, b"", bytes(16)), name


@pytest.mark.parametrize(("operation", "version"), CASES)
def test_refusal_of_a_whole_request_cannot_be_written(operation: Any, version: int) -> None:
    """A handler that fails is answered in the layout of any request, naming what was asked."""
    source = random.Random(f"{operation.key.name} {version}")
    for _ in range(10):
        asked = random_message(generic_of(operation.request), version, source)
        if hasattr(asked, "isolation_level"):
            asked.isolation_level = 0
        data = b"".join(bytes(part) for part in codec.encode(asked, version))
        request = operation.decode(memoryview(data), 0, version)
        response = operation.fail(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
        message = decoded(operation, operation.encode(response, version), version)
        refused = [value for name, value in leaves(message, version) if name == "error_code"]
        assert set(refused) <= {ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
        if getattr(request, "partitions", None):
            assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED in refused
        partitions = getattr(response, "partitions", ())
        assert len(partitions) in (0, len(getattr(request, "partitions", None) or ()))


@pytest.mark.parametrize(("operation", "version"), CASES)
def test_request_cannot_be_read(operation: Any, version: int) -> None:
    """Random requests of every version become typed ones, and old fields new ones."""
    source = random.Random(f"{operation.key.name} {version}")
    for _ in range(10):
        asked = random_message(generic_of(operation.request), version, source)
        if hasattr(asked, "isolation_level"):
            asked.isolation_level = 0
        data = b"".join(bytes(part) for part in codec.encode(asked, version))
        request = operation.decode(memoryview(data), 0, version)
        if operation.withholding is not None:
            operation.withholding.take(request, version)
        for entry in getattr(request, "partitions", None) or ():
            assert isinstance(entry, tuple) or isinstance(entry.topic, str)

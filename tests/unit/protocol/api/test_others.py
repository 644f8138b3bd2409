"""Producers, the cluster, log directories and offsets by time."""

import pytest

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from support.kafka_messages import read_request, written_response


@pytest.mark.parametrize(
    ("error", "version", "expected"),
    [
        (ErrorCode.PRODUCER_FENCED, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, 4, ErrorCode.PRODUCER_FENCED),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 5, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_fenced_producer_gets_an_error_it_does_not_know(
    error: ErrorCode, version: int, expected: ErrorCode
) -> None:
    """It would take an unknown code for a reason to retry for ever."""
    response = api.InitProducerIdResponse(error)
    assert written_response(ApiKey.INIT_PRODUCER_ID, response, version).error_code == expected


@pytest.mark.parametrize(
    ("error", "version", "expected"),
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, 3, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.KAFKA_STORAGE_ERROR, 4, ErrorCode.KAFKA_STORAGE_ERROR),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_producing_client_gets_an_error_it_does_not_know(
    error: ErrorCode, version: int, expected: ErrorCode
) -> None:
    """As FETCH-10."""
    response = api.ProduceResponse([api.ProducePartitionResult("t", 0, error)])
    message = written_response(ApiKey.PRODUCE, response, version)
    assert message.responses[0].partition_responses[0].error_code == expected


@pytest.mark.parametrize(("version", "code"), [(4, 5), (5, 78)])
def test_old_client_gets_offset_not_available(version: int, code: int) -> None:
    """LIST-8; and the leader epoch only where there is room for it."""
    response = api.ListOffsetsResponse(
        [api.ListOffsetsResult("t", 0, ErrorCode.OFFSET_NOT_AVAILABLE, leader_epoch=3)]
    )
    message = written_response(ApiKey.LIST_OFFSETS, response, version)
    assert message.topics[0].partitions[0].error_code == code
    for each in range(1, 12):
        written_response(ApiKey.LIST_OFFSETS, response, each)


def test_partitions_of_a_topic_are_spread_over_the_answer() -> None:
    """The partitions of one topic belong together, whatever the order of the handler."""
    response = api.DescribeLogDirsResponse(
        [
            api.LogDirDescription(
                "/data",
                ErrorCode.NONE,
                [api.LogDirPartition(topic, index, 1) for index in (0, 1) for topic in "ab"],
            )
        ]
    )
    (log_dir,) = written_response(ApiKey.DESCRIBE_LOG_DIRS, response, 5).results
    assert [(each.name, len(each.partitions)) for each in log_dir.topics] == [("a", 2), ("b", 2)]


def test_all_log_dirs_become_none() -> None:
    """Null topics."""
    assert read_request(ApiKey.DESCRIBE_LOG_DIRS, 2, topics=None).partitions is None
    topics = [{"topic": "t", "partitions": [1, 2]}]
    request = read_request(ApiKey.DESCRIBE_LOG_DIRS, 2, topics=topics)
    assert request.partitions == [("t", 1), ("t", 2)]


def test_endpoint_type_breaks_the_oldest_version() -> None:
    """Controllers can only be asked for from version 1 on."""
    response = api.DescribeClusterResponse("c", endpoint_type=2)
    for version in range(3):
        written_response(ApiKey.DESCRIBE_CLUSTER, response, version)

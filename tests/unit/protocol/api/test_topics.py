"""Creating, growing and deleting topics."""

import pytest

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka import codec
from seglog.protocol.kafka.operations import OPERATION_OF_KEY
from support.kafka_messages import read_request, written_response

TOPIC_ID = bytes(range(16))


def test_assignments_and_overrides_are_lost() -> None:
    """A topic to create with everything that can be said about it."""
    topic = {
        "name": "t",
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 1, "broker_ids": [3]}],
        "configs": [{"name": "a", "value": None}],
    }
    request = read_request(
        ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout_ms=5, validate_only=True
    )
    assert request == api.CreateTopicsRequest(
        [api.NewTopic("t", -1, -1, {"a": None}, {1: [3]})], 5, True
    )


def test_a_partition_that_is_assigned_twice_is_assigned_once() -> None:
    """One of the two would be forgotten without a word; with the replicas of both it is refused."""
    assignment = {"partition_index": 0, "broker_ids": [0]}
    topic = {"name": "t", "num_partitions": -1, "replication_factor": -1}
    topic["assignments"] = [assignment, assignment]
    (wanted,) = read_request(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout_ms=5).topics
    assert wanted.assignments == {0: [0, 0]}


def test_topics_are_deleted_by_name_in_both_forms() -> None:
    """A list of names up to version 5, of names or ids from version 6 on."""
    old = read_request(ApiKey.DELETE_TOPICS, 5, topic_names=["a", "b"], timeout_ms=5)
    assert old == api.DeleteTopicsRequest(["a", "b"], [], 5)
    topics = [{"name": "a"}, {"topic_id": TOPIC_ID}, {"name": "b", "topic_id": TOPIC_ID}]
    asked = read_request(ApiKey.DELETE_TOPICS, 6, topics=topics, timeout_ms=5)
    assert asked == api.DeleteTopicsRequest(["a"], [TOPIC_ID], 5, [("b", TOPIC_ID)])
    operation = OPERATION_OF_KEY[ApiKey.DELETE_TOPICS]
    failed = operation.fail(asked, ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert [each.name for each in failed.topics] == ["a", None, "b"]


def test_deletion_changes_on_its_way() -> None:
    """What is named by name, by id and by both comes back in its own list."""
    request = api.DeleteTopicsRequest(["a"], [TOPIC_ID], 5, [("b", TOPIC_ID)])
    data = memoryview(codec.encode_bytes(request, 6))
    assert codec.decode(api.DeleteTopicsRequest, 6, data)[0] == request


@pytest.mark.parametrize(("version", "code"), [(2, 42), (3, 73)])
def test_old_client_gets_topic_deletion_disabled(version: int, code: int) -> None:
    """Before version 3 it is INVALID_REQUEST."""
    response = api.DeleteTopicsResponse(
        [api.DeleteTopicResult("t", ErrorCode.TOPIC_DELETION_DISABLED)]
    )
    written = written_response(ApiKey.DELETE_TOPICS, response, version)
    assert written.responses[0].error_code == code

"""Creating, growing and deleting topics."""

import pytest

from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import create_topics, delete_topics
from seglog.protocol.kafka.translate import topics

TOPIC_ID = bytes(range(16))


def test_assignments_and_overrides_are_lost() -> None:
    """A topic to create with everything that can be said about it."""
    message = create_topics.CreateTopicsRequest(
        topics=[
            create_topics.CreatableTopic(
                name="t",
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    create_topics.CreatableReplicaAssignment(partition_index=1, broker_ids=[3])
                ],
                configs=[create_topics.CreatableTopicConfig(name="a", value=None)],
            )
        ],
        timeout_ms=5,
        validate_only=True,
    )
    assert topics.read_create_topics(message, 7) == api.CreateTopicsRequest(
        [api.NewTopic("t", -1, -1, {"a": None}, {1: [3]})], 5, True
    )


def test_a_partition_that_is_assigned_twice_is_assigned_once() -> None:
    """One of the two would be forgotten without a word; with the replicas of both it is refused."""
    assignment = create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=[0])
    topic = create_topics.CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment, assignment]
    )
    message = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=5)
    (wanted,) = topics.read_create_topics(message, 7).topics
    assert wanted.assignments == {0: [0, 0]}


def test_topics_are_deleted_by_name_in_both_forms() -> None:
    """A list of names up to version 5, of names or ids from version 6 on."""
    old = delete_topics.DeleteTopicsRequest(topics=[], topic_names=["a", "b"], timeout_ms=5)
    assert topics.read_delete_topics(old, 5) == api.DeleteTopicsRequest(["a", "b"], [], 5)
    new = delete_topics.DeleteTopicsRequest(
        topics=[
            delete_topics.DeleteTopicState(name="a"),
            delete_topics.DeleteTopicState(topic_id=TOPIC_ID),
            delete_topics.DeleteTopicState(name="b", topic_id=TOPIC_ID),
        ],
        topic_names=[],
        timeout_ms=5,
    )
    asked = topics.read_delete_topics(new, 6)
    assert asked == api.DeleteTopicsRequest(["a"], [TOPIC_ID], 5, [("b", TOPIC_ID)])
    failed = topics.fail_delete_topics(asked, ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert [each.name for each in failed.topics] == ["a", None, "b"]


@pytest.mark.parametrize(("version", "code"), [(2, 42), (3, 73)])
def test_old_client_gets_topic_deletion_disabled(version: int, code: int) -> None:
    """Before version 3 it is INVALID_REQUEST."""
    response = api.DeleteTopicsResponse(
        [api.DeleteTopicResult("t", ErrorCode.TOPIC_DELETION_DISABLED)]
    )
    assert topics.write_delete_topics(response, version).responses[0].error_code == code

"""Metadata, and creating, growing and deleting topics."""

import pytest

from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka import codec
from seglog.protocol.kafka.messages import create_topics, delete_topics, metadata
from seglog.protocol.kafka.schema import NOT_REQUESTED
from seglog.protocol.kafka.translate import topics

TOPIC_ID = bytes(range(16))


def read_metadata(version: int, names: list[str | None] | None) -> api.MetadataRequest:
    entries = None
    if names is not None:
        entries = [
            metadata.MetadataRequestTopic(topic_id=bytes(16) if name else TOPIC_ID, name=name)
            for name in names
        ]
    message = metadata.MetadataRequest(
        topics=entries,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=version >= 8,
    )
    decoded, _ = codec.decode(
        metadata.MetadataRequest, version, memoryview(codec.encode_bytes(message, version))
    )
    return topics.read_metadata(decoded, version)


def test_no_topics_means_all_topics_in_later_versions_too() -> None:
    """Version 0 has no null: its empty list is "all"; later an empty list is "none"."""
    assert read_metadata(0, []).topics is None
    assert read_metadata(0, ["t"]).topics == ["t"]
    for version in range(1, 14):
        assert read_metadata(version, []).topics == []
        assert read_metadata(version, None).topics is None


def test_old_client_cannot_create_topics_by_asking() -> None:
    """Versions 0 to 3 always allow it."""
    assert all(read_metadata(version, ["t"]).allow_auto_topic_creation for version in range(14))


def test_topic_is_asked_for_by_id() -> None:
    """Version 12: a null name stands for an id."""
    request = read_metadata(12, ["a", None])
    assert request.topics == ["a"]
    assert request.topic_ids == [TOPIC_ID]


def test_authorized_operations_are_lost_or_sent_unasked() -> None:
    """A version that cannot carry them must not fail on them either."""
    assert read_metadata(9, []).include_topic_authorized_operations
    topic = api.TopicMetadata("t", TOPIC_ID, [], authorized_operations=8)
    response = api.MetadataResponse([], "c", 1, [topic], authorized_operations=16)
    for version in range(14):
        message = topics.write_metadata(response, version)
        codec.encode(message, version)
        cluster = message.cluster_authorized_operations
        assert cluster == (16 if 8 <= version <= 10 else NOT_REQUESTED)
        of_topic = message.topics[0].topic_authorized_operations
        assert of_topic == (8 if version >= 8 else NOT_REQUESTED)


def test_unknown_id_has_no_name_to_answer_with() -> None:
    """Null from version 12 on; before, nobody can have asked."""
    response = api.MetadataResponse(
        [], "c", 1, [api.TopicMetadata(None, TOPIC_ID, [], ErrorCode.UNKNOWN_TOPIC_ID)]
    )
    for version, name in ((11, ""), (12, None)):
        message = topics.write_metadata(response, version)
        codec.encode(message, version)
        assert message.topics[0].name == name


@pytest.mark.parametrize(("version", "code"), [(5, 5), (6, 72)])
def test_old_client_gets_listener_not_found(version: int, code: int) -> None:
    """Before version 6 it is LEADER_NOT_AVAILABLE."""
    topic = api.TopicMetadata("t", TOPIC_ID, [], ErrorCode.LISTENER_NOT_FOUND)
    message = topics.write_metadata(api.MetadataResponse([], "c", 1, [topic]), version)
    assert message.topics[0].error_code == code


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


def test_topics_are_deleted_by_name_in_both_forms() -> None:
    """A list of names up to version 5, of names or ids from version 6 on."""
    old = delete_topics.DeleteTopicsRequest(topics=[], topic_names=["a", "b"], timeout_ms=5)
    assert topics.read_delete_topics(old, 5) == api.DeleteTopicsRequest(["a", "b"], [], 5)
    new = delete_topics.DeleteTopicsRequest(
        topics=[
            delete_topics.DeleteTopicState(name="a"),
            delete_topics.DeleteTopicState(topic_id=TOPIC_ID),
        ],
        topic_names=[],
        timeout_ms=5,
    )
    assert topics.read_delete_topics(new, 6) == api.DeleteTopicsRequest(["a"], [TOPIC_ID], 5)


@pytest.mark.parametrize(("version", "code"), [(2, 42), (3, 73)])
def test_old_client_gets_topic_deletion_disabled(version: int, code: int) -> None:
    """Before version 3 it is INVALID_REQUEST."""
    response = api.DeleteTopicsResponse(
        [api.DeleteTopicResult("t", ErrorCode.TOPIC_DELETION_DISABLED)]
    )
    assert topics.write_delete_topics(response, version).responses[0].error_code == code

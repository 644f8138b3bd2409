"""Metadata."""

import pytest

from seglog.protocol import api
from seglog.protocol.api import AUTHORIZED_OPERATIONS_NOT_REQUESTED, ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka import codec
from support.kafka_messages import read_request, written_response

TOPIC_ID = bytes(range(16))


def read_metadata(version: int, names: list[str | None] | None) -> api.MetadataRequest:
    entries = None
    if names is not None:
        entries = [{"topic_id": bytes(16) if name else TOPIC_ID, "name": name} for name in names]
    request: api.MetadataRequest = read_request(
        ApiKey.METADATA, version, topics=entries, include_topic_authorized_operations=version >= 8
    )
    return request


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


@pytest.mark.parametrize("topics", [None, [], ["a", "b"]])
@pytest.mark.parametrize("ids", [[], [TOPIC_ID]])
def test_request_changes_on_its_way(topics: list[str] | None, ids: list[bytes]) -> None:
    """Names and ids share one list on the wire; ids alone name topics too."""
    request = api.MetadataRequest(topics, ids)
    data = memoryview(codec.encode_bytes(request, 12))
    if ids:
        request.topics = topics or []
    assert codec.decode(api.MetadataRequest, 12, data)[0] == request


def test_authorized_operations_are_lost_or_sent_unasked() -> None:
    """A version that cannot carry them must not fail on them either."""
    assert read_metadata(9, []).include_topic_authorized_operations
    topic = api.TopicMetadata("t", TOPIC_ID, [], authorized_operations=8)
    response = api.MetadataResponse([], "c", 1, [topic], authorized_operations=16)
    for version in range(14):
        message = written_response(ApiKey.METADATA, response, version)
        cluster = message.cluster_authorized_operations
        assert cluster == (16 if 8 <= version <= 10 else AUTHORIZED_OPERATIONS_NOT_REQUESTED)
        of_topic = message.topics[0].topic_authorized_operations
        assert of_topic == (8 if version >= 8 else AUTHORIZED_OPERATIONS_NOT_REQUESTED)


def test_unknown_id_has_no_name_to_answer_with() -> None:
    """Null from version 12 on; before, nobody can have asked."""
    response = api.MetadataResponse(
        [], "c", 1, [api.TopicMetadata(None, TOPIC_ID, [], ErrorCode.UNKNOWN_TOPIC_ID)]
    )
    for version, name in ((11, ""), (12, None)):
        assert written_response(ApiKey.METADATA, response, version).topics[0].name == name


@pytest.mark.parametrize(("version", "code"), [(5, 5), (6, 72)])
def test_old_client_gets_listener_not_found(version: int, code: int) -> None:
    """Before version 6 it is LEADER_NOT_AVAILABLE."""
    topic = api.TopicMetadata("t", TOPIC_ID, [], ErrorCode.LISTENER_NOT_FOUND)
    response = api.MetadataResponse([], "c", 1, [topic])
    assert written_response(ApiKey.METADATA, response, version).topics[0].error_code == code


def test_page_of_topics_takes_the_errors_of_old_metadata() -> None:
    """Its version 0 is newer than all of those."""
    topic = api.TopicMetadata("t", TOPIC_ID, [], ErrorCode.UNKNOWN_TOPIC_ID)
    response = api.DescribeTopicPartitionsResponse([topic])
    written = written_response(ApiKey.DESCRIBE_TOPIC_PARTITIONS, response, 0)
    assert written.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

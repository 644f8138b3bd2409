"""What a client knows of topics and leaders."""

import os

import pytest

from seglog.clients.config import Address
from seglog.clients.errors import InvalidTopicError, UnknownTopicOrPartitionError
from seglog.clients.session.metadata import Metadata, error_about
from seglog.protocol.api import BrokerMetadata, MetadataResponse, PartitionMetadata, TopicMetadata
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import TopicPartition

FIRST, SECOND = TopicPartition("topic", 0), TopicPartition("topic", 1)


def answer(*topics: TopicMetadata, brokers: int = 2) -> MetadataResponse:
    nodes = [BrokerMetadata(number, "host", 9000 + number) for number in range(brokers)]
    return MetadataResponse(nodes, "cluster", 0, list(topics))


def topic(name: str, *leaders: int, error: ErrorCode = ErrorCode.NONE) -> TopicMetadata:
    partitions = [
        PartitionMetadata(number, leader, 0, [], []) for number, leader in enumerate(leaders)
    ]
    return TopicMetadata(name, os.urandom(16), partitions, error)


def test_a_partition_without_a_leader_has_no_address() -> None:
    metadata = Metadata()
    metadata.learn(answer(topic("topic", 1, -1)), ["topic"])
    assert metadata.leader_of(FIRST) == 1
    assert metadata.leader_address(FIRST) == Address("host", 9001)
    assert metadata.leader_address(SECOND) is None
    assert metadata.topics["topic"].partitions == [FIRST, SECOND]
    assert metadata.cluster_id == "cluster"


def test_a_topic_that_was_asked_about_and_is_missing_is_forgotten() -> None:
    metadata = Metadata()
    metadata.learn(answer(topic("topic", 0), topic("other", 0)), None)
    metadata.learn(answer(), ["topic"])
    assert list(metadata.topics) == ["other"]
    gone = topic("other", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    metadata.learn(answer(gone), ["other"])
    assert not metadata.topics


def test_a_passing_error_leaves_what_was_known() -> None:
    metadata = Metadata()
    metadata.learn(answer(topic("topic", 0)), ["topic"])
    metadata.learn(answer(topic("topic", error=ErrorCode.LEADER_NOT_AVAILABLE)), ["topic"])
    assert metadata.leader_of(FIRST) == 0


def test_readers_of_the_topics_never_see_them_change() -> None:
    metadata = Metadata()
    metadata.learn(answer(topic("topic", 0)), ["topic"])
    before = metadata.topics
    metadata.learn(answer(topic("topic", 1)), ["topic"])
    metadata.forget(["topic"])
    assert before["topic"].leaders == {0: 0}
    with pytest.raises(TypeError):
        before["topic"] = before["topic"]  # type: ignore[index]


def test_an_answer_without_brokers_does_not_take_away_the_way_to_them() -> None:
    metadata = Metadata()
    metadata.learn(answer(), [])
    metadata.learn(answer(brokers=0), [])
    assert set(metadata.brokers) == {0, 1}


def test_what_is_wrong_with_a_topic_is_told_in_words() -> None:
    assert error_about(answer(topic("topic", 0)), "topic") is None
    assert isinstance(error_about(answer(), "topic"), UnknownTopicOrPartitionError)
    missing = answer(topic("topic", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert str(error_about(missing, "topic")) == "topic topic does not exist"
    invalid = answer(topic("a b", error=ErrorCode.INVALID_TOPIC_EXCEPTION))
    assert isinstance(error_about(invalid, "a b"), InvalidTopicError)

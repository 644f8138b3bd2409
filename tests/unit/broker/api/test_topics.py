"""CreateTopics, CreatePartitions and DeleteTopics, against a real catalog and real logs."""

import os

import pytest

from seglog.protocol.api import (
    CreatePartitionsRequest,
    CreateTopicResult,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewPartitions,
    NewTopic,
)
from seglog.protocol.errors import ErrorCode
from support.broker_parts import BrokerParts, batch_of


async def create(
    broker: BrokerParts, *topics: NewTopic, validate_only: bool = False
) -> list[CreateTopicResult]:
    request = CreateTopicsRequest(list(topics), validate_only=validate_only)
    results: list[CreateTopicResult] = (await broker.ask(request)).topics
    return results


async def test_created_topic_takes_records_and_outlives_a_restart(broker: BrokerParts) -> None:
    (result,) = await create(broker, NewTopic("t", 3, 1, {"segment.bytes": "1048576"}))
    assert (result.error, result.partitions, result.replication_factor) == (0, 3, 1)
    assert any(
        (entry.name, entry.value, entry.source) == ("segment.bytes", "1048576", 1)
        for entry in result.configs
    )
    await broker.produce([("t", 2, batch_of(b"x"))])
    again = await broker.restart()
    topic = again.services.catalog.get("t")
    assert topic is not None
    assert (topic.topic_id, topic.partition_count) == (result.topic_id, 3)
    assert again.values("t", 2) == [b"x"]
    assert again.log("t", 0).config.segment_bytes == 1_048_576


ILLEGAL_NAMES = ["", ".", "..", "a/b", "../x", "a b", "a\0b", "x" * 250, "ä"]


@pytest.mark.parametrize("name", ILLEGAL_NAMES)
async def test_illegal_name_is_refused_with_a_reason_and_leaves_no_folder(
    broker: BrokerParts, name: str
) -> None:
    """C043"""
    before = sorted(os.listdir(broker.log_dir))
    (result,) = await create(broker, NewTopic(name))
    assert result.error == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert result.error_message
    assert sorted(os.listdir(broker.log_dir)) == before


async def test_names_that_could_be_confused_are_kept_apart(broker: BrokerParts) -> None:
    """C043"""
    assert (await create(broker, NewTopic("a.b")))[0].error == ErrorCode.NONE
    (refused,) = await create(broker, NewTopic("a_b"))
    assert refused.error == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "'a.b'" in (refused.error_message or "")
    legal = [
        NewTopic("a-b"),
        NewTopic("x" * 249),
        NewTopic("a", 12),
        NewTopic("a-1"),
        NewTopic("A"),
    ]
    assert [result.error for result in await create(broker, *legal)] == [0] * 5
    for name, partition in (("a.b", 0), ("a", 1), ("a-1", 0), ("A", 0)):
        await broker.produce([(name, partition, batch_of(name.encode()))])
    assert broker.values("a", 1) == [b"a"]
    assert broker.values("a-1", 0) == [b"a-1"]
    assert broker.services.counters.topic("a.b").messages_in == 1


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("t", 0), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", -2), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", 10_001), ErrorCode.POLICY_VIOLATION),
        (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, 1, {"no.such.key": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, 1, {"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, 1, {"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, -1, {}, {0: [1]}), ErrorCode.INVALID_REQUEST),
        (NewTopic("t", -1, -1, {}, {0: [77]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", -1, -1, {}, {1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_topic_that_cannot_be_is_refused_with_the_offending_value(
    broker: BrokerParts, topic: NewTopic, code: ErrorCode
) -> None:
    (result,) = await create(broker, topic)
    assert result.error == code
    assert result.error_message
    assert broker.services.catalog.get("t") is None


async def test_defaults_and_assignments_give_the_partition_count(broker: BrokerParts) -> None:
    node_id = broker.services.config.node_id
    assigned = NewTopic("assigned", assignments={0: [node_id], 1: [node_id]})
    results = await create(broker, NewTopic("plain"), assigned)
    assert [(result.error, result.partitions) for result in results] == [(0, 1), (0, 2)]


async def test_topic_that_exists_or_is_named_twice_is_refused(broker: BrokerParts) -> None:
    await broker.create_topic("t")
    results = await create(broker, NewTopic("t"), NewTopic("u"), NewTopic("u"))
    assert [result.error for result in results] == [36, 42, 42]
    assert broker.services.catalog.get("u") is None


async def test_validate_only_creates_nothing(broker: BrokerParts) -> None:
    results = await create(broker, NewTopic("t", 2), NewTopic("/"), validate_only=True)
    assert [(result.error, result.partitions) for result in results] == [(0, 2), (17, -1)]
    assert broker.services.catalog.get("t") is None
    assert not [name for name in os.listdir(broker.log_dir) if name.startswith("t-")]


async def test_topic_grows_and_never_shrinks(broker: BrokerParts) -> None:
    await broker.create_topic("t", 2)
    await broker.produce([("t", 1, batch_of(b"old"))])
    wanted = [
        NewPartitions("t", 4),
        NewPartitions("ghost", 4),
    ]
    response = await broker.ask(CreatePartitionsRequest(wanted, validate_only=True))
    assert [result.error for result in response.topics] == [0, 3]
    assert broker.services.partitions.find("t", 3) is None
    response = await broker.ask(CreatePartitionsRequest(wanted))
    assert [result.error for result in response.topics] == [0, 3]
    await broker.produce([("t", 3, batch_of(b"new"))])
    for count in (4, 3, 0):
        response = await broker.ask(CreatePartitionsRequest([NewPartitions("t", count)]))
        assert response.topics[0].error == ErrorCode.INVALID_PARTITIONS
    again = await broker.restart()
    assert (again.values("t", 1), again.values("t", 3)) == ([b"old"], [b"new"])


async def test_deleted_topic_is_gone_and_its_name_free_at_once(broker: BrokerParts) -> None:
    """MGR-3"""
    old_id = await broker.create_topic("t", 2)
    await broker.produce([("t", 0, batch_of(b"old"))])
    response = await broker.ask(DeleteTopicsRequest(["t", "ghost"]))
    assert [result.error for result in response.topics] == [0, 3]
    assert response.topics[0].topic_id == old_id
    (result,) = await broker.produce([("t", 0, batch_of(b"x"))])
    assert result.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    new_id = await broker.create_topic("t")
    assert new_id != old_id
    assert broker.values("t", 0) == []
    await broker.produce([("t", 0, batch_of(b"new"))])
    again = await broker.restart()
    assert again.values("t", 0) == [b"new"]


async def test_topic_is_deleted_by_id(broker: BrokerParts) -> None:
    topic_id = await broker.create_topic("t")
    response = await broker.ask(DeleteTopicsRequest([], [topic_id, bytes(15) + b"x"]))
    assert [result.error for result in response.topics] == [0, ErrorCode.UNKNOWN_TOPIC_ID]
    assert response.topics[0].name == "t"


async def test_topic_named_twice_is_deleted_and_then_unknown(broker: BrokerParts) -> None:
    """As Kafka: neither is done, whichever way it is named; the others are deleted."""
    topic_id = await broker.create_topic("t")
    await broker.create_topic("other")
    ghost = bytes(15) + b"x"
    for names, ids, errors in (
        (["t", "other", "t"], [], [42, 0, 42]),
        (["t"], [topic_id], [42, 42]),
        ([], [topic_id, topic_id], [42, 42]),
        (["ghost", "ghost"], [ghost, ghost], [42, 42, 42, 42]),
        (["none"], [bytes(16), bytes(16)], [3, 42, 42]),
    ):
        response = await broker.ask(DeleteTopicsRequest(names, ids))
        assert [result.error for result in response.topics] == errors
    assert [topic.name for topic in broker.services.catalog.topics()] == ["t"]


async def test_successor_of_a_topic_is_deleted_under_its_name_and_an_id_of_the_past(
    broker: BrokerParts,
) -> None:
    """Kafka refuses what is named both ways."""
    await broker.create_topic("t")
    past = bytes(15) + b"x"
    response = await broker.ask(DeleteTopicsRequest(named_twofold=[("t", past)]))
    assert [(each.name, each.topic_id, each.error) for each in response.topics] == [
        ("t", past, ErrorCode.INVALID_REQUEST)
    ]
    assert broker.services.catalog.get("t") is not None


async def test_deletion_can_be_switched_off(broker: BrokerParts) -> None:
    again = await broker.restart({"delete.topic.enable": "false"})
    await again.create_topic("t")
    response = await again.ask(DeleteTopicsRequest(["t"]))
    assert response.topics[0].error == ErrorCode.TOPIC_DELETION_DISABLED
    assert again.services.catalog.get("t") is not None


async def test_internal_topics_are_made_by_the_broker_alone(broker: BrokerParts) -> None:
    """C043: a client could give it settings under which groups lose what they have committed."""
    topic = NewTopic("__consumer_offsets", 1, 1, {"cleanup.policy": "delete"})
    (result,) = (await broker.ask(CreateTopicsRequest([topic]))).topics
    assert result.error == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "internal" in (result.error_message or "")
    await broker.create_internal_topic("__consumer_offsets")
    (result,) = (await broker.ask(CreateTopicsRequest([topic]))).topics
    assert result.error == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
async def test_whoever_deletes_an_internal_topic_takes_what_is_committed(
    broker: BrokerParts, name: str
) -> None:
    """C043: by name or by id; the code is one that every version of every client knows."""
    await broker.create_internal_topic(name)
    topic = broker.services.catalog.get(name)
    assert topic is not None
    for request in (DeleteTopicsRequest([name]), DeleteTopicsRequest([], [topic.topic_id])):
        (result,) = (await broker.ask(request)).topics
        assert result.error == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert "internal" in (result.error_message or "")
    (ghost,) = (await broker.ask(DeleteTopicsRequest(["__share_group_state"]))).topics
    assert ghost.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.services.catalog.get(name) == topic

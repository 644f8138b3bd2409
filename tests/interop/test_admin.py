"""Admin clients arrange a broker and see what they have arranged."""

from collections.abc import Iterator
from typing import Any

import pytest

from seglog.clients import Producer
from seglog.clients.testing import RunningBroker
from support.eventually import eventually
from support.foreign.admins import LACKS, open_admin
from support.foreign.everyone import CLIENTS
from support.foreign.shape import UnavailableError

DEFAULT_SEGMENT_MS = "604800000"


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest, broker: RunningBroker) -> Iterator[tuple[str, Any]]:
    """Each admin client in turn, with its name."""
    try:
        admin = open_admin(request.param, broker.address)
    except UnavailableError as error:
        pytest.skip(f"{request.param}: {error}")
    yield request.param, admin
    admin.close()


def test_topics_are_created_grown_and_deleted(client) -> None:
    """CreateTopics, CreatePartitions, Metadata, DeleteTopics."""
    name, admin = client
    topic = f"arranged.{name}"
    admin.ask("create", topic=topic, partitions=3)
    assert admin.ask("partitions", topic=topic) == 3
    assert topic in admin.ask("topics")
    admin.ask("grow", topic=topic, partitions=5)
    assert eventually(lambda: admin.ask("partitions", topic=topic) == 5)
    with pytest.raises(Exception, match=r"(?i)exist|36"):
        admin.ask("create", topic=topic, partitions=3)
    with pytest.raises(Exception, match=r"(?i)partitions|37"):
        admin.ask("grow", topic=topic, partitions=2)
    admin.ask("delete", topic=topic)
    assert eventually(lambda: topic not in admin.ask("topics"))


def test_topic_configs_are_changed_and_reset(client) -> None:
    """DescribeConfigs with sources, IncrementalAlterConfigs or AlterConfigs."""
    name, admin = client
    topic = f"configured.{name}"
    admin.ask("create", topic=topic, partitions=1)

    def found() -> tuple[str, Any]:
        value, source = admin.ask("config", topic=topic, key="segment.ms")
        return value, source

    value, source = found()
    assert value == DEFAULT_SEGMENT_MS
    assert source in ("DEFAULT_CONFIG", 5)
    admin.ask("set_config", topic=topic, key="segment.ms", value="12345678")
    value, source = found()
    assert value == "12345678"
    assert source in ("DYNAMIC_TOPIC_CONFIG", 1)
    with pytest.raises(Exception, match=r"(?i)config|40"):
        admin.ask("set_config", topic=topic, key="segment.ms", value="long")
    admin.ask("set_config", topic=topic, key="segment.ms", value=None)
    assert found()[0] == DEFAULT_SEGMENT_MS


def test_records_are_deleted(broker: RunningBroker, client) -> None:
    """DeleteRecords answers with the new start."""
    name, admin = client
    topic = f"emptied.{name}"
    admin.ask("create", topic=topic, partitions=1)
    with Producer(broker.address) as producer:
        for _ in range(10):
            producer.send(topic, b"v")
    assert admin.ask("delete_records", topic=topic, offset=4) == 4
    assert admin.ask("delete_records", topic=topic, offset=-1) in (10, 4)


def test_groups_are_seen_moved_and_deleted(broker: RunningBroker, client) -> None:
    """ListGroups, DescribeGroups, OffsetFetch, OffsetCommit, OffsetDelete, DeleteGroups."""
    name, admin = client
    lacks = LACKS[name]
    topic, group = f"read.{name}", f"group.{name}"
    admin.ask("create", topic=topic, partitions=1)
    with Producer(broker.address) as producer:
        for _ in range(10):
            producer.send(topic, b"v")
    if "set_committed" in lacks:
        pytest.skip(f"{name} cannot commit for others; see test_groups")
    admin.ask("set_committed", group=group, topic=topic, offset=7)
    assert admin.ask("committed", group=group, topic=topic) == {f"{topic}-0": 7}
    assert group in admin.ask("groups")
    assert admin.ask("group", group=group) == "EMPTY"
    if "delete_offsets" not in lacks:
        admin.ask("delete_offsets", group=group, topic=topic)
        assert admin.ask("committed", group=group, topic=topic) == {}
        admin.ask("set_committed", group=group, topic=topic, offset=3)
    admin.ask("delete_group", group=group)
    assert group not in admin.ask("groups")
    assert admin.ask("committed", group=group, topic=topic) == {}


def test_the_cluster_is_described(client) -> None:
    """DescribeCluster or Metadata, DescribeLogDirs."""
    name, admin = client
    assert admin.ask("cluster") == 1
    if "log_dirs" not in LACKS[name]:
        assert admin.ask("log_dirs") == 1


def test_kafka_python_reads_producers_transactions_and_partitions(broker: RunningBroker) -> None:
    """DescribeProducers, ListTransactions, DescribeTopicPartitions, offset resets."""
    from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
    from kafka.admin import OffsetSpec

    with open_closing(KafkaAdminClient(bootstrap_servers=broker.address)) as admin:
        admin.create_topics({"seen": {"num_partitions": 2, "configs": {"retention.ms": "-1"}}})
        place = TopicPartition("seen", 0)
        with open_closing(KafkaProducer(bootstrap_servers=broker.address)) as producer:
            for _ in range(5):
                producer.send("seen", b"v", partition=0).get(10)
        (state,) = admin.describe_producers([place])[place].active_producers
        assert state.last_sequence == 4
        assert all(not found for found in admin.list_transactions().values())
        found = admin.describe_topics(["seen"])
        assert [len(each["partitions"]) for each in found] == [2]
        assert admin.describe_log_dirs(["seen"])
        admin.reset_group_offsets("resetters", {place: OffsetSpec.LATEST})
        assert admin.list_group_offsets({"resetters": None})["resetters"][place].offset == 5
        admin.reset_group_offsets("resetters", {place: OffsetSpec.EARLIEST})
        assert admin.list_group_offsets({"resetters": None})["resetters"][place].offset == 0
        latest = admin.list_partition_offsets({place: OffsetSpec.LATEST})
        assert latest[place].offset == 5


class open_closing:  # noqa: N801 - reads like contextlib.closing, with a timeout inside
    """``contextlib.closing`` for clients of kafka-python."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __enter__(self) -> Any:
        return self._client

    def __exit__(self, *_: object) -> None:
        self._client.close()

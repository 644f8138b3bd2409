"""librdkafka's admin client, asked in the words of the tests."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

WAIT_SECONDS = 15.0


class ConfluentAdmin:
    """Answers the questions of ``test_admin``."""

    def __init__(self, address: str) -> None:
        self._client = AdminClient({"bootstrap.servers": address, "log_level": 0})

    def ask(self, what: str, **arguments: Any) -> Any:
        """One question."""
        work: Callable[..., Any] = getattr(self, f"_{what}")
        return work(**arguments)

    def _create(self, topic: str, partitions: int) -> None:
        _only(self._client.create_topics([NewTopic(topic, partitions, 1)]))

    def _delete(self, topic: str) -> None:
        _only(self._client.delete_topics([topic]))

    def _grow(self, topic: str, partitions: int) -> None:
        _only(self._client.create_partitions([NewPartitions(topic, partitions)]))

    def _partitions(self, topic: str) -> int:
        return len(self._client.list_topics(topic, timeout=WAIT_SECONDS).topics[topic].partitions)

    def _topics(self) -> list[str]:
        return list(self._client.list_topics(timeout=WAIT_SECONDS).topics)

    def _config(self, topic: str, key: str) -> tuple[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entry = _only(self._client.describe_configs([resource]))[key]
        return entry.value, ConfigSource(entry.source).name

    def _set_config(self, topic: str, key: str, value: str | None) -> None:
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        change = ConfigEntry(key, value or "", incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
        _only(self._client.incremental_alter_configs([resource]))

    def _delete_records(self, topic: str, offset: int) -> int:
        found = _only(self._client.delete_records([TopicPartition(topic, 0, offset)]))
        low: int = found.low_watermark
        return low

    def _cluster(self) -> int:
        return len(self._client.describe_cluster().result(WAIT_SECONDS).nodes)

    def _groups(self) -> list[str]:
        found = self._client.list_consumer_groups().result(WAIT_SECONDS)
        assert not found.errors, found.errors
        return [each.group_id for each in found.valid]

    def _group(self, group: str) -> str:
        state: str = _only(self._client.describe_consumer_groups([group])).state.name
        return state

    def _committed(self, group: str, topic: str) -> dict[str, int]:
        question = ConsumerGroupTopicPartitions(group)
        found = _only(self._client.list_consumer_group_offsets([question]))
        return {f"{e.topic}-{e.partition}": e.offset for e in found.topic_partitions}

    def _set_committed(self, group: str, topic: str, offset: int) -> None:
        wanted = [TopicPartition(topic, 0, offset)]
        change = ConsumerGroupTopicPartitions(group, wanted)
        _only(self._client.alter_consumer_group_offsets([change]))

    def _delete_group(self, group: str) -> None:
        _only(self._client.delete_consumer_groups([group]))

    def close(self) -> None:
        """Nothing to be closed."""


def _only(futures: Any) -> Any:
    ((_, future),) = futures.items()
    return future.result(WAIT_SECONDS)

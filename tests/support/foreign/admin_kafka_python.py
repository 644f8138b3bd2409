"""kafka-python's admin client, asked in the words of the tests."""

from collections.abc import Callable
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.structs import OffsetAndMetadata


class KafkaPythonAdmin:
    """Answers the questions of ``test_admin``."""

    def __init__(self, address: str) -> None:
        self._client = KafkaAdminClient(bootstrap_servers=address)

    def ask(self, what: str, **arguments: Any) -> Any:
        """One question."""
        work: Callable[..., Any] = getattr(self, f"_{what}")
        return work(**arguments)

    def _create(self, topic: str, partitions: int) -> None:
        self._client.create_topics({topic: {"num_partitions": partitions}})

    def _delete(self, topic: str) -> None:
        self._client.delete_topics([topic])

    def _grow(self, topic: str, partitions: int) -> None:
        self._client.create_partitions({topic: partitions})

    def _partitions(self, topic: str) -> int:
        found = self._client.describe_topic_partitions([topic])
        return len(found["topics"][0]["partitions"])

    def _topics(self) -> list[str]:
        return list(self._client.list_topics())

    def _config(self, topic: str, key: str) -> tuple[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: None})
        found = self._client.describe_configs([resource], config_filter="all")
        entry = found["topic"][topic][key]
        return entry["value"], entry["config_source"].upper()

    def _set_config(self, topic: str, key: str, value: str | None) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})
        if value is None:
            self._client.reset_configs([resource])
        else:
            answer = self._client.alter_configs([resource])
            assert answer["topic"][topic] == "OK", answer

    def _delete_records(self, topic: str, offset: int) -> int:
        place = TopicPartition(topic, 0)
        found = self._client.delete_records({place: offset})[place]
        low: int = found["low_watermark"]
        return low

    def _cluster(self) -> int:
        return len(self._client.describe_cluster()["brokers"])

    def _log_dirs(self) -> int:
        return len(self._client.describe_log_dirs())

    def _groups(self) -> list[str]:
        return [each["group_id"] for each in self._client.list_groups()]

    def _group(self, group: str) -> str:
        state: str = self._client.describe_groups([group])[group]["group_state"]
        return state.upper()

    def _committed(self, group: str, topic: str) -> dict[str, int]:
        found = self._client.list_group_offsets({group: None})[group]
        return {f"{where.topic}-{where.partition}": what.offset for where, what in found.items()}

    def _set_committed(self, group: str, topic: str, offset: int) -> None:
        wanted = OffsetAndMetadata(offset, "", -1)
        self._client.alter_group_offsets(group, {TopicPartition(topic, 0): wanted})

    def _delete_offsets(self, group: str, topic: str) -> None:
        self._client.delete_group_offsets(group, [TopicPartition(topic, 0)])

    def _delete_group(self, group: str) -> None:
        self._client.delete_groups([group])

    def close(self) -> None:
        """Hang up."""
        self._client.close()

"""aiokafka's admin client, asked in the words of the tests."""

from collections.abc import Callable
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from support.foreign.with_aiokafka import AiokafkaClient

_SOURCES = {1: "DYNAMIC_TOPIC_CONFIG", 5: "DEFAULT_CONFIG"}


class AiokafkaAdmin:
    """Answers the questions of ``test_admin``."""

    def __init__(self, address: str) -> None:
        self._loop = AiokafkaClient(address)
        self._client = self._loop.run(self._start(address))

    async def _start(self, address: str) -> AIOKafkaAdminClient:
        client = AIOKafkaAdminClient(bootstrap_servers=address)
        await client.start()
        return client

    def ask(self, what: str, **arguments: Any) -> Any:
        """One question."""
        work: Callable[..., Any] = getattr(self, f"_{what}")
        return self._loop.run(work(**arguments))

    async def _create(self, topic: str, partitions: int) -> None:
        answer = await self._client.create_topics([NewTopic(topic, partitions, 1)])
        _check(answer.topic_errors)

    async def _delete(self, topic: str) -> None:
        _check((await self._client.delete_topics([topic])).topic_error_codes)

    async def _grow(self, topic: str, partitions: int) -> None:
        answer = await self._client.create_partitions({topic: NewPartitions(partitions)})
        _check(answer.topic_errors)

    async def _partitions(self, topic: str) -> int:
        (found,) = await self._client.describe_topics([topic])
        return len(found["partitions"])

    async def _topics(self) -> list[str]:
        return list(await self._client.list_topics())

    async def _config(self, topic: str, key: str) -> tuple[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: None})
        (answer,) = await self._client.describe_configs([resource])
        (resource_answer,) = answer.resources
        (entry,) = resource_answer[4]
        return entry[1], _SOURCES[entry[3]]

    async def _set_config(self, topic: str, key: str, value: str | None) -> None:
        wanted = {} if value is None else {key: value}
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, wanted)
        (answer,) = await self._client.alter_configs([resource])
        assert all(each[0] == 0 for each in answer.resources), answer

    async def _delete_records(self, topic: str, offset: int) -> int:
        place = TopicPartition(topic, 0)
        found = await self._client.delete_records({place: RecordsToDelete(offset)})
        return found[place]

    async def _cluster(self) -> int:
        return len((await self._client.describe_cluster())["brokers"])

    async def _groups(self) -> list[str]:
        return [each[0] for each in await self._client.list_consumer_groups()]

    async def _group(self, group: str) -> str:
        (answer,) = await self._client.describe_consumer_groups([group])
        state: str = answer.groups[0][2]
        return state.upper()

    async def _committed(self, group: str, topic: str) -> dict[str, int]:
        found = await self._client.list_consumer_group_offsets(group)
        return {f"{where.topic}-{where.partition}": what.offset for where, what in found.items()}

    def close(self) -> None:
        """Hang up."""
        self._loop.run(self._client.close())
        self._loop.close()


def _check(results: Any) -> None:
    for each in results:
        assert each[1] == 0, each

"""All foreign clients by their names."""

from collections.abc import Callable
from typing import Any, Final

from support.foreign.shape import ForeignClient


def _confluent(address: str) -> ForeignClient:
    from support.foreign.confluent import ConfluentClient

    return ConfluentClient(address)


def _kafka_python(address: str) -> ForeignClient:
    from support.foreign.with_kafka_python import KafkaPythonClient

    return KafkaPythonClient(address)


def _aiokafka(address: str) -> ForeignClient:
    from support.foreign.with_aiokafka import AiokafkaClient

    return AiokafkaClient(address)


def _kafkajs(address: str) -> Any:
    from support.foreign.programs import kafkajs_client

    return kafkajs_client(address)


def _java(address: str) -> Any:
    from support.foreign.programs import java_client

    return java_client(address)


OPENERS: Final[dict[str, Callable[[str], ForeignClient]]] = {
    "confluent-kafka": _confluent,
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
    "kafkajs": _kafkajs,
    "java": _java,
}
CLIENTS: Final = tuple(OPENERS)
PYTHON_CLIENTS: Final = CLIENTS[:3]


def open_client(name: str, address: str) -> ForeignClient:
    """Start a client; raises ``UnavailableError`` where it is not to be had."""
    return OPENERS[name](address)

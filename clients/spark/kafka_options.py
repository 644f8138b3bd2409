"""Settings of Kafka's clients that jobs for Spark's Kafka connector bring along (``kafka.*``).

Those that tell how Kafka's client does its work make no difference here, and are taken without
effect. Those that would change which rows are read or written, or with whom, are refused by name.
"""

from collections.abc import Callable
from typing import Final

from seglog.clients.errors import ConfigurationError
from seglog.clients.spark.option_values import OptionReader

_OF_ANY_CLIENT: Final = (
    "client.dns.lookup",
    "client.rack",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "enable.metrics.push",
    "metadata.max.age.ms",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retry.backoff.max.ms",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
)
_OF_CONSUMERS: Final = (
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "check.crcs",
    "exclude.internal.topics",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.id",
    "group.instance.id",
    "heartbeat.interval.ms",
    "isolation.level",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "partition.assignment.strategy",
    "session.timeout.ms",
)
_OF_PRODUCERS: Final = (
    "acks",
    "batch.size",
    "buffer.memory",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delivery.timeout.ms",
    "enable.idempotence",
    "linger.ms",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.request.size",
    "metadata.max.idle.ms",
    "retries",
    "transaction.timeout.ms",
)
_WITHOUT_EFFECT: Final = frozenset((*_OF_ANY_CLIENT, *_OF_CONSUMERS, *_OF_PRODUCERS))
_PREFIXES_WITHOUT_EFFECT: Final = ("kafka.metric", "kafka.ssl.", "kafka.sasl.")
"""What only counts with TLS or SASL has no effect in Kafka's client either, without them."""
_REFUSED: Final = {
    "auto.offset.reset": "say where to begin with startingOffsets, and what to do about records "
    "that are gone with failOnDataLoss",
    "enable.auto.commit": "Spark keeps the offsets of a query in its checkpoint",
    "interceptor.classes": "there are no interceptors; change the rows in the query",
    "key.deserializer": "keys come as binary; cast them in the query",
    "key.serializer": "keys are written as the bytes or text of their column",
    "partitioner.class": "rows without partition go where Kafka's default partitioner puts their "
    "key; give others in the column partition",
    "transactional.id": "the sink does not write in transactions",
    "value.deserializer": "values come as binary; cast them in the query",
    "value.serializer": "values are written as the bytes or text of their column",
}


def take_kafka_options(reader: OptionReader) -> None:
    """Take what has no effect here.

    Raises:
        ConfigurationError: an option would change the rows read or written.
    """
    for name, reason in _REFUSED.items():
        reader.take(f"kafka.{name}", _refusal(reason), None)
    reader.take("kafka.security.protocol", _plaintext, None)
    reader.ignore(f"kafka.{name}" for name in _WITHOUT_EFFECT)
    for prefix in _PREFIXES_WITHOUT_EFFECT:
        reader.ignore_prefix(prefix)


def _refusal(reason: str) -> Callable[[str, str], None]:
    def parse(name: str, value: str) -> None:
        raise ConfigurationError(f"{name}={value!r} cannot be given: {reason}")

    return parse


def _plaintext(name: str, value: str) -> None:
    if value.strip().upper() != "PLAINTEXT":
        raise ConfigurationError(
            f"{name}={value!r} cannot be given: connections are PLAINTEXT, the broker has no TLS "
            "and no authentication"
        )

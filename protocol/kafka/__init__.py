"""The Kafka dialect: messages as bytes, and their translation to the typed requests of the broker.

    bytes -> connection -> codec (decoder, encoder: compiled from messages) -> translate -> api

``KafkaServerConnection`` is one connection without any I/O; ``Offer`` says what a broker offers.
``docs/kafka-dialect.md`` lists the operations and versions.
"""

from seglog.protocol.dialect import Reply
from seglog.protocol.kafka.connection import (
    KafkaRequest,
    KafkaServerConnection,
    UnsupportedApiError,
)
from seglog.protocol.kafka.operations import ALL_OPERATIONS, Offer

__all__ = [
    "ALL_OPERATIONS",
    "KafkaRequest",
    "KafkaServerConnection",
    "Offer",
    "Reply",
    "UnsupportedApiError",
]

"""The public client library of seglog.

``Producer``, ``Consumer`` and ``Admin`` block; ``AsyncProducer``, ``AsyncConsumer`` and
``AsyncAdmin`` are the same for asyncio. What they raise is in ``seglog.clients.errors``.
"""

from seglog.clients.admin import AsyncAdmin
from seglog.clients.blocking.admin import Admin
from seglog.clients.blocking.consumer import Consumer
from seglog.clients.blocking.producer import Producer
from seglog.clients.config import ClientConfig, ConsumerConfig, ProducerConfig
from seglog.clients.consumer.consumer import AsyncConsumer
from seglog.clients.consumer.starts import Last, Offset, Timestamp
from seglog.clients.errors import (
    BrokerConnectionError,
    BrokerError,
    BrokerUnreachableError,
    BufferFullError,
    ClientClosedError,
    ClientError,
    ClientTimeoutError,
    ConfigurationError,
    ConnectionLostError,
    CorruptRecordError,
    DeliveryTimeoutError,
    FlushTimeoutError,
    InvalidRecordError,
    MetadataTimeoutError,
    OffsetOutOfRangeError,
    RecordsDroppedError,
    RecordTooLargeError,
    RequestTimeoutError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from seglog.clients.models import OffsetAndTimestamp, RecordMetadata
from seglog.clients.producer.futures import (
    AsyncBulkFuture,
    AsyncDeliveryFuture,
    BulkFuture,
    DeliveryFuture,
)
from seglog.clients.producer.producer import AsyncProducer
from seglog.protocol.api import NewTopic
from seglog.protocol.records.record import Record
from seglog.protocol.types import TopicPartition

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncBulkFuture",
    "AsyncConsumer",
    "AsyncDeliveryFuture",
    "AsyncProducer",
    "BrokerConnectionError",
    "BrokerError",
    "BrokerUnreachableError",
    "BufferFullError",
    "BulkFuture",
    "ClientClosedError",
    "ClientConfig",
    "ClientError",
    "ClientTimeoutError",
    "ConfigurationError",
    "ConnectionLostError",
    "Consumer",
    "ConsumerConfig",
    "CorruptRecordError",
    "DeliveryFuture",
    "DeliveryTimeoutError",
    "FlushTimeoutError",
    "InvalidRecordError",
    "Last",
    "MetadataTimeoutError",
    "NewTopic",
    "Offset",
    "OffsetAndTimestamp",
    "OffsetOutOfRangeError",
    "Producer",
    "ProducerConfig",
    "Record",
    "RecordMetadata",
    "RecordTooLargeError",
    "RecordsDroppedError",
    "RequestTimeoutError",
    "Timestamp",
    "TopicAlreadyExistsError",
    "TopicPartition",
    "UnknownTopicOrPartitionError",
]

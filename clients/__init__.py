"""The public client library of seglog.

``Producer``, ``Consumer`` and ``Admin`` block; ``AsyncProducer``, ``AsyncConsumer`` and
``AsyncAdmin`` are the same for asyncio. What they raise is in ``seglog.clients.errors``.

Each name is imported when it is first used: a program that only reads must not pay for the
producer, nor the command line for anything before it knows the command.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
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
        CommitFailedError,
        ConfigurationError,
        ConnectionLostError,
        CorruptRecordError,
        DeliveryTimeoutError,
        FencedInstanceIdError,
        FlushTimeoutError,
        GroupNotEmptyError,
        GroupNotFoundError,
        InvalidRecordError,
        MetadataTimeoutError,
        NoCommittedOffsetError,
        OffsetCommitError,
        OffsetOutOfRangeError,
        OutOfOrderSequenceError,
        ProducerFencedError,
        RebalanceInProgressError,
        RecordsDroppedError,
        RecordTooLargeError,
        RequestTimeoutError,
        TopicAlreadyExistsError,
        TransactionAbortedError,
        TransactionStateError,
        UnknownTopicOrPartitionError,
    )
    from seglog.clients.group.steps import RebalanceListener
    from seglog.clients.models import (
        GroupInfo,
        GroupLag,
        GroupMember,
        GroupMetadata,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        OffsetChange,
        OpenTransaction,
        RecordMetadata,
        TransactionInfo,
    )
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
    "CommitFailedError",
    "ConfigurationError",
    "ConnectionLostError",
    "Consumer",
    "ConsumerConfig",
    "CorruptRecordError",
    "DeliveryFuture",
    "DeliveryTimeoutError",
    "FencedInstanceIdError",
    "FlushTimeoutError",
    "GroupInfo",
    "GroupLag",
    "GroupMember",
    "GroupMetadata",
    "GroupNotEmptyError",
    "GroupNotFoundError",
    "InvalidRecordError",
    "Last",
    "MetadataTimeoutError",
    "NewTopic",
    "NoCommittedOffsetError",
    "Offset",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetChange",
    "OffsetCommitError",
    "OffsetOutOfRangeError",
    "OpenTransaction",
    "OutOfOrderSequenceError",
    "Producer",
    "ProducerConfig",
    "ProducerFencedError",
    "RebalanceInProgressError",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "RecordTooLargeError",
    "RecordsDroppedError",
    "RequestTimeoutError",
    "Timestamp",
    "TopicAlreadyExistsError",
    "TopicPartition",
    "TransactionAbortedError",
    "TransactionInfo",
    "TransactionStateError",
    "UnknownTopicOrPartitionError",
]

_NAMES_BY_MODULE: Final = {
    "seglog.clients.admin": ("AsyncAdmin",),
    "seglog.clients.blocking.admin": ("Admin",),
    "seglog.clients.blocking.consumer": ("Consumer",),
    "seglog.clients.blocking.producer": ("Producer",),
    "seglog.clients.config": ("ClientConfig", "ConsumerConfig", "ProducerConfig"),
    "seglog.clients.consumer.consumer": ("AsyncConsumer",),
    "seglog.clients.consumer.starts": ("Last", "Offset", "Timestamp"),
    "seglog.clients.errors": (
        "BrokerConnectionError",
        "BrokerError",
        "BrokerUnreachableError",
        "BufferFullError",
        "ClientClosedError",
        "ClientError",
        "ClientTimeoutError",
        "CommitFailedError",
        "ConfigurationError",
        "ConnectionLostError",
        "CorruptRecordError",
        "DeliveryTimeoutError",
        "FencedInstanceIdError",
        "FlushTimeoutError",
        "GroupNotEmptyError",
        "GroupNotFoundError",
        "InvalidRecordError",
        "MetadataTimeoutError",
        "NoCommittedOffsetError",
        "OffsetCommitError",
        "OffsetOutOfRangeError",
        "OutOfOrderSequenceError",
        "ProducerFencedError",
        "RebalanceInProgressError",
        "RecordTooLargeError",
        "RecordsDroppedError",
        "RequestTimeoutError",
        "TopicAlreadyExistsError",
        "TransactionAbortedError",
        "TransactionStateError",
        "UnknownTopicOrPartitionError",
    ),
    "seglog.clients.group.steps": ("RebalanceListener",),
    "seglog.clients.models": (
        "GroupInfo",
        "GroupLag",
        "GroupMember",
        "GroupMetadata",
        "OffsetAndMetadata",
        "OffsetAndTimestamp",
        "OffsetChange",
        "OpenTransaction",
        "RecordMetadata",
        "TransactionInfo",
    ),
    "seglog.clients.producer.futures": (
        "AsyncBulkFuture",
        "AsyncDeliveryFuture",
        "BulkFuture",
        "DeliveryFuture",
    ),
    "seglog.clients.producer.producer": ("AsyncProducer",),
    "seglog.protocol.api": ("NewTopic",),
    "seglog.protocol.records.record": ("Record",),
    "seglog.protocol.types": ("TopicPartition",),
}
_MODULES: Final = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is not None:
        value = getattr(import_module(module), name)
    elif name == "errors":
        value = import_module("seglog.clients.errors")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""The shared vocabulary: names and numbers that every layer uses.

Ranges are half-open; a name that ends in ``_end`` is exclusive, one that starts with ``last_`` is
inclusive. Times are milliseconds since the epoch in UTC, sizes are bytes.
"""

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes to read without a copy; ``collections.abc.Buffer`` only exists from Python 3.12 on."""

NO_TIMESTAMP: Final = -1
NO_OFFSET: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

EARLIEST_TIMESTAMP: Final = -2
LATEST_TIMESTAMP: Final = -1
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class IsolationLevel(IntEnum):
    """The records for a reader: all below the high watermark, or only decided transactions."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Acks(IntEnum):
    """When a produce request is answered: never, after the leader's write, after all replicas'."""

    NONE = 0
    LEADER = 1
    ALL = -1


class TimestampType(IntEnum):
    """Whose clock stamped a record: the client's or the broker's."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class ConfigResourceType(IntEnum):
    """The kind of resource that a configuration belongs to; Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a configuration value comes from; Kafka's numbers."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class AlterConfigOperation(IntEnum):
    """What an incremental change does to one configuration value."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3

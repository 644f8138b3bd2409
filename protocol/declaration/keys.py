"""The operations by number, and what record bytes look like to a dialect."""

from enum import IntEnum
from typing import Final, Protocol

ZERO_TOPIC_ID: Final = bytes(16)
AUTHORIZED_OPERATIONS_NOT_REQUESTED: Final = -(2**31)
"""In place of a set of operations (bit n: Kafka's ACL operation n) that was not asked for."""


class ApiKey(IntEnum):
    """The operations; Kafka's keys where Kafka has one, from 1000 on seglog's own."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    DESCRIBE_TOPIC_PARTITIONS = 75

    DESCRIBE_PARTITIONS = 1000
    RUN_RETENTION = 1001
    CLEAN_LOGS = 1002
    ROLL_SEGMENTS = 1003


class RecordSource(Protocol):
    """Record bytes that are somewhere else, for example in a segment file."""

    @property
    def length(self) -> int:
        """How many bytes it holds."""
        ...

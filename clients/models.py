"""What the clients hand out besides records."""

from typing import NamedTuple


class RecordMetadata(NamedTuple):
    """Where a record was stored.

    ``offset`` is -1 with acks=0, where the broker does not tell. ``timestamp_ms`` is the broker's
    clock on topics with LogAppendTime.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class OffsetAndMetadata(NamedTuple):
    """An offset to commit or committed: that of the next record to read, and a word about it.

    ``leader_epoch`` is that of the record before it, -1 where it is not known.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """An offset that was found; ``timestamp_ms`` is -1 where the question was not about time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int

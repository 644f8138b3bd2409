"""What the clients hand out besides records."""

from typing import NamedTuple

from seglog.protocol.types import TopicPartition


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


class GroupMetadata(NamedTuple):
    """The identity of a consumer in its group; one without a generation has -1 and no name.

    For ``send_offsets_to_transaction``: so the broker refuses the offsets of a consumer whose
    partitions have gone to others.
    """

    group: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class TransactionInfo(NamedTuple):
    """A transactional id as the broker knows it.

    ``state`` is Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort;
    ``started_ms`` is -1 where no transaction is open.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    partitions: tuple[TopicPartition, ...]


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition, and holds readers of decided records back.

    ``last_timestamp_ms`` is that of its newest record, ``transactional_id`` the one whose present
    transaction it is: None for a hanging one, which no coordinator will end.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int
    transactional_id: str | None


class GroupMember(NamedTuple):
    """A member of a group as the broker knows it.

    ``topics`` and ``partitions``, what it wants and what it has, are only known of consumers in a
    stable group; elsewhere they are empty.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: frozenset[str]
    partitions: tuple[TopicPartition, ...]


class GroupInfo(NamedTuple):
    """A group as the broker knows it.

    ``state`` is Empty, PreparingRebalance, CompletingRebalance or Stable, ``coordinator_id`` the
    node id of the broker that looks after the group.
    """

    group: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    coordinator_id: int


class GroupLag(NamedTuple):
    """How far a group is in a partition.

    ``offset`` is the committed one and ``lag`` the distance to ``end_offset``, which is that behind
    the last record, decided or not; both are None without a commit. ``end_offset`` is
    None where a member has a partition that was deleted meanwhile. ``member`` has the partition
    now, None if no member has.
    """

    offset: int | None
    end_offset: int | None
    lag: int | None
    member: GroupMember | None


class OffsetChange(NamedTuple):
    """What a reset does to the committed offset of a partition; None is none."""

    before: int | None
    after: int

"""Fetch: read record batches. ``fast_fetch`` has a quicker way for the usual versions."""

from seglog.protocol.kafka.schema import (
    ZERO_UUID,
    Message,
    RecordsField,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    uuid,
)
from seglog.protocol.types import INT32_MAX, INT64_MAX


class ReplicaState(Struct):
    """The fetching broker, if it is one."""

    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchPartition(Struct):
    """What to read of one partition."""

    partition: int = int32("0+")
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64("0+")
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32("0+")
    replica_directory_id: bytes = uuid("17+", default=ZERO_UUID, ignorable=True, tag=0)
    high_watermark: int = int64("18+", default=INT64_MAX, ignorable=True, tag=1)


class FetchTopic(Struct):
    """One topic that is read; named by its id from version 13 on."""

    topic: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition, "0+")


class ForgottenTopic(Struct):
    """Partitions to drop from the fetch session."""

    topic: str = string("7-12", ignorable=True)
    topic_id: bytes = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[int] = array("int32", "7+")


class FetchRequest(Message, api_key=1, versions="0-18", flexible="12+", served="4-17"):
    """Reads record batches, within a session or without; version 18 is of controllers only."""

    cluster_id: str | None = string("12+", default=None, nullable="12+", ignorable=True, tag=0)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState | None = nested(ReplicaState, "15+", default=None, tag=1)
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("3+", default=INT32_MAX, ignorable=True)
    isolation_level: int = int8("4+", default=0, ignorable=True)
    session_id: int = int32("7+", default=0, ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = array(FetchTopic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+", default="", ignorable=True)


class EpochEndOffset(Struct):
    """Where an epoch ended."""

    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    """The leader of the partition, for a client that asked the wrong broker."""

    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


class SnapshotId(Struct):
    """A snapshot to load instead; raft only."""

    end_offset: int = int64("0+", default=-1)
    epoch: int = int32("0+", default=-1)


class AbortedTransaction(Struct):
    """An aborted transaction whose records are among those returned."""

    producer_id: int = int64("4+")
    first_offset: int = int64("4+")


class PartitionData(Struct):
    """The batches of one partition."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    high_watermark: int = int64("0+")
    last_stable_offset: int = int64("4+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = nested(EpochEndOffset, "12+", default=None, tag=0)
    current_leader: LeaderIdAndEpoch | None = nested(LeaderIdAndEpoch, "12+", default=None, tag=1)
    snapshot_id: SnapshotId | None = nested(SnapshotId, "12+", default=None, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: RecordsField = records("0+", nullable="0+")


class FetchableTopicResponse(Struct):
    """The results of one topic."""

    topic: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData] = array(PartitionData, "0+")


class NodeEndpoint(Struct):
    """The address of a leader named in this answer."""

    node_id: int = int32("16+")
    host: str = string("16+")
    port: int = int32("16+")
    rack: str | None = string("16+", default=None, nullable="16+")


class FetchResponse(Message, api_key=1, versions="0-18", flexible="12+"):
    """The batches that were found; the error is about the session."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+", default=0)
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", default=(), tag=0)

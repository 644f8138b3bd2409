"""Produce: append record batches. ``fast_produce`` has a quicker way for the usual versions."""

from seglog.protocol.kafka.schema import (
    ZERO_UUID,
    Message,
    RecordsField,
    Struct,
    array,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    uuid,
)


class PartitionProduceData(Struct):
    """The batches for one partition."""

    index: int = int32("0+")
    records: RecordsField = records("0+", nullable="0+")


class TopicProduceData(Struct):
    """One topic that is written to; named by its id from version 13 on."""

    name: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData, "0+")


class ProduceRequest(Message, api_key=0, versions="0-13", flexible="9+", served="3-13"):
    """Appends record batches.

    Kafka 4 refuses versions 0 to 2 but lists them; they are declared so that they can be refused in
    a form which their sender reads.
    """

    transactional_id: str | None = string("3+", default=None, nullable="3+")
    acks: int = int16("0+")
    timeout_ms: int = int32("0+")
    topic_data: list[TopicProduceData] = array(TopicProduceData, "0+")


class BatchIndexAndErrorMessage(Struct):
    """One record that spoiled its batch."""

    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", default=None, nullable="8+")


class LeaderIdAndEpoch(Struct):
    """The leader of the partition, for a client that asked the wrong broker."""

    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class PartitionProduceResponse(Struct):
    """Where a batch was stored, or why not."""

    index: int = int32("0+")
    error_code: int = int16("0+")
    base_offset: int = int64("0+")
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, "8+", ignorable=True
    )
    error_message: str | None = string("8+", default=None, nullable="8+", ignorable=True)
    current_leader: LeaderIdAndEpoch | None = nested(LeaderIdAndEpoch, "10+", default=None, tag=0)


class TopicProduceResponse(Struct):
    """The results of one topic."""

    name: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse, "0+")


class NodeEndpoint(Struct):
    """The address of a leader named in this answer."""

    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", default=None, nullable="10+")


class ProduceResponse(Message, api_key=0, versions="0-13", flexible="9+"):
    """One result a partition of the request."""

    responses: list[TopicProduceResponse] = array(TopicProduceResponse, "0+")
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", default=(), tag=0)

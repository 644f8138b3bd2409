"""DeleteRecords."""

from seglog.protocol.kafka.schema import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    string,
)


class DeleteRecordsPartition(Struct):
    """The offset below which to delete; -1 is the high watermark."""

    partition_index: int = int32("0+")
    offset: int = int64("0+")


class DeleteRecordsTopic(Struct):
    """One topic to delete from."""

    name: str = string("0+")
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition, "0+")


class DeleteRecordsRequest(Message, api_key=21, versions="0-2", flexible="2+"):
    """Deletes the oldest records of partitions."""

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic, "0+")
    timeout_ms: int = int32("0+")


class DeleteRecordsPartitionResult(Struct):
    """The first offset that is left."""

    partition_index: int = int32("0+")
    low_watermark: int = int64("0+")
    error_code: int = int16("0+")


class DeleteRecordsTopicResult(Struct):
    """The results of one topic."""

    name: str = string("0+")
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult, "0+")


class DeleteRecordsResponse(Message, api_key=21, versions="0-2", flexible="2+"):
    """One result a partition."""

    throttle_time_ms: int = int32("0+")
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult, "0+")

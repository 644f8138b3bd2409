"""What brokers store of share groups for each other: known, so that it can be refused.

Of responses only what a refusal holds is declared.
"""

from typing import Final

from seglog.protocol.kafka.schema import (
    ZERO_UUID,
    Message,
    Struct,
    Undeclared,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class PartitionResult(Struct):
    """What became of one partition."""

    partition: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")


class InitializePartition(Struct):
    """One partition."""

    partition: int = int32("0+")
    state_epoch: int = int32("0+")
    start_offset: int = int64("0+")


class InitializeTopic(Struct):
    """Partitions of one topic."""

    topic_id: bytes = uuid("0+", default=ZERO_UUID)
    partitions: list[InitializePartition] = array(InitializePartition, "0+")


class InitializeShareGroupStateRequest(Message, api_key=83, versions="0", flexible="0+"):
    """Begins the state of partitions."""

    group_id: str = string("0+")
    topics: list[InitializeTopic] = array(InitializeTopic, "0+")


class InitializeTopicResult(Struct):
    """The results of one topic."""

    topic_id: bytes = uuid("0+", default=ZERO_UUID)
    partitions: list[PartitionResult] = array(PartitionResult, "0+")


class InitializeShareGroupStateResponse(Message, api_key=83, versions="0", flexible="0+"):
    """One result a partition."""

    results: list[InitializeTopicResult] = array(InitializeTopicResult, "0+")


class ReadPartition(Struct):
    """One partition."""

    partition: int = int32("0+")
    leader_epoch: int = int32("0+")


class ReadTopic(Struct):
    """Partitions of one topic."""

    topic_id: bytes = uuid("0+", default=ZERO_UUID)
    partitions: list[ReadPartition] = array(ReadPartition, "0+")


class ReadShareGroupStateRequest(Message, api_key=84, versions="0", flexible="0+"):
    """Reads the state of partitions."""

    group_id: str = string("0+")
    topics: list[ReadTopic] = array(ReadTopic, "0+")


class ReadPartitionResult(Struct):
    """What became of one partition."""

    partition: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    state_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    state_batches: list[Undeclared] = array(Undeclared, "0+")


class ReadTopicResult(Struct):
    """The results of one topic."""

    topic_id: bytes = uuid("0+", default=ZERO_UUID)
    partitions: list[ReadPartitionResult] = array(ReadPartitionResult, "0+")


class ReadShareGroupStateResponse(Message, api_key=84, versions="0", flexible="0+"):
    """One result a partition."""

    results: list[ReadTopicResult] = array(ReadTopicResult, "0+")


class StateBatch(Struct):
    """The state of some neighbouring records."""

    first_offset: int = int64("0+")
    last_offset: int = int64("0+")
    delivery_state: int = int8("0+")
    delivery_count: int = int16("0+")


class WritePartition(Struct):
    """One partition."""

    partition: int = int32("0+")
    state_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)
    state_batches: list[StateBatch] = array(StateBatch, "0+")


class WriteTopic(Struct):
    """Partitions of one topic."""

    topic_id: bytes = uuid("0+", default=ZERO_UUID)
    partitions: list[WritePartition] = array(WritePartition, "0+")


class WriteShareGroupStateRequest(Message, api_key=85, versions="0-1", flexible="0+"):
    """Writes the state of partitions."""

    group_id: str = string("0+")
    topics: list[WriteTopic] = array(WriteTopic, "0+")


class WriteTopicResult(Struct):
    """The results of one topic."""

    topic_id: bytes = uuid("0+", default=ZERO_UUID)
    partitions: list[PartitionResult] = array(PartitionResult, "0+")


class WriteShareGroupStateResponse(Message, api_key=85, versions="0-1", flexible="0+"):
    """One result a partition."""

    results: list[WriteTopicResult] = array(WriteTopicResult, "0+")


class DeletePartition(Struct):
    """One partition."""

    partition: int = int32("0+")


class DeleteTopic(Struct):
    """Partitions of one topic."""

    topic_id: bytes = uuid("0+", default=ZERO_UUID)
    partitions: list[DeletePartition] = array(DeletePartition, "0+")


class DeleteShareGroupStateRequest(Message, api_key=86, versions="0", flexible="0+"):
    """Ends the state of partitions."""

    group_id: str = string("0+")
    topics: list[DeleteTopic] = array(DeleteTopic, "0+")


class DeleteTopicResult(Struct):
    """The results of one topic."""

    topic_id: bytes = uuid("0+", default=ZERO_UUID)
    partitions: list[PartitionResult] = array(PartitionResult, "0+")


class DeleteShareGroupStateResponse(Message, api_key=86, versions="0", flexible="0+"):
    """One result a partition."""

    results: list[DeleteTopicResult] = array(DeleteTopicResult, "0+")


class ReadSummaryTopic(Struct):
    """Partitions of one topic."""

    topic_id: bytes = uuid("0+", default=ZERO_UUID)
    partitions: list[ReadPartition] = array(ReadPartition, "0+")


class ReadShareGroupStateSummaryRequest(Message, api_key=87, versions="0-1", flexible="0+"):
    """Reads how far partitions are."""

    group_id: str = string("0+")
    topics: list[ReadSummaryTopic] = array(ReadSummaryTopic, "0+")


class ReadSummaryPartitionResult(Struct):
    """What became of one partition."""

    partition: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", default=None, nullable="0+")
    state_epoch: int = int32("0+")
    leader_epoch: int = int32("0+")
    start_offset: int = int64("0+")
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)


class ReadSummaryTopicResult(Struct):
    """The results of one topic."""

    topic_id: bytes = uuid("0+", default=ZERO_UUID)
    partitions: list[ReadSummaryPartitionResult] = array(ReadSummaryPartitionResult, "0+")


class ReadShareGroupStateSummaryResponse(Message, api_key=87, versions="0-1", flexible="0+"):
    """One result a partition."""

    results: list[ReadSummaryTopicResult] = array(ReadSummaryTopicResult, "0+")


OPERATIONS: Final = (
    (
        InitializeShareGroupStateRequest,
        InitializeShareGroupStateResponse,
        InitializeTopicResult,
        PartitionResult,
    ),
    (ReadShareGroupStateRequest, ReadShareGroupStateResponse, ReadTopicResult, ReadPartitionResult),
    (
        WriteShareGroupStateRequest,
        WriteShareGroupStateResponse,
        WriteTopicResult,
        PartitionResult,
    ),
    (
        DeleteShareGroupStateRequest,
        DeleteShareGroupStateResponse,
        DeleteTopicResult,
        PartitionResult,
    ),
    (
        ReadShareGroupStateSummaryRequest,
        ReadShareGroupStateSummaryResponse,
        ReadSummaryTopicResult,
        ReadSummaryPartitionResult,
    ),
)
"""Requests, responses, and what these hold for a topic and a partition."""

"""Replicas, elections, the quorum, features, telemetry: known, so that they can be refused.

Of requests only what an answer repeats is declared, of responses only what a refusal holds.
"""

from seglog.protocol.kafka.schema import (
    ZERO_UUID,
    Message,
    Struct,
    Undeclared,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    uuid,
)


class AlterReplicaLogDirTopic(Struct):
    """Partitions of one topic to move."""

    name: str = string("0+")
    partitions: list[int] = array("int32", "0+")


class AlterReplicaLogDir(Struct):
    """A folder and what to move there."""

    path: str = string("0+")
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic, "0+")


class AlterReplicaLogDirsRequest(Message, api_key=34, versions="0-2", flexible="2+"):
    """Moves replicas between the folders of a broker."""

    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir, "0+")


class AlterReplicaLogDirPartitionResult(Struct):
    """What became of one partition."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class AlterReplicaLogDirTopicResult(Struct):
    """The results of one topic."""

    topic_name: str = string("0+")
    partitions: list[AlterReplicaLogDirPartitionResult] = array(
        AlterReplicaLogDirPartitionResult, "0+"
    )


class AlterReplicaLogDirsResponse(Message, api_key=34, versions="0-2", flexible="2+"):
    """One result a partition."""

    throttle_time_ms: int = int32("0+")
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult, "0+")


class TopicPartitions(Struct):
    """Partitions of one topic that want a leader."""

    topic: str = string("0+")
    partitions: list[int] = array("int32", "0+")


class ElectLeadersRequest(Message, api_key=43, versions="0-2", flexible="2+"):
    """Elects leaders; null stands for all partitions."""

    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+")
    timeout_ms: int = int32("0+", default=60000)


class PartitionResult(Struct):
    """What became of one election."""

    partition_id: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class ReplicaElectionResult(Struct):
    """The results of one topic."""

    topic: str = string("0+")
    partition_result: list[PartitionResult] = array(PartitionResult, "0+")


class ElectLeadersResponse(Message, api_key=43, versions="0-2", flexible="2+"):
    """One result a partition; an error of the whole request from version 1 on."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult, "0+")


class AlterPartitionReassignmentsResponse(Message, api_key=45, versions="0-1", flexible="0+"):
    """What became of changes to where replicas are."""

    throttle_time_ms: int = int32("0+")
    allow_replication_factor_change: bool = boolean("1+", default=True, ignorable=True)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    responses: list[Undeclared] = array(Undeclared, "0+")


class ListPartitionReassignmentsResponse(Message, api_key=46, versions="0", flexible="0+"):
    """Which replicas are on the move."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    topics: list[Undeclared] = array(Undeclared, "0+")


class DescribeQuorumResponse(Message, api_key=55, versions="0-2", flexible="0+"):
    """The controllers and how far they are."""

    error_code: int = int16("0+")
    error_message: str | None = string("2+", nullable="2+", ignorable=True)
    topics: list[Undeclared] = array(Undeclared, "0+")
    nodes: list[Undeclared] = array(Undeclared, "2+")


class UpdateFeaturesResponse(Message, api_key=57, versions="0-2", flexible="0+"):
    """What became of changes to the levels of features."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[Undeclared] = array(Undeclared, "0-1", ignorable=True)


class UnregisterBrokerResponse(Message, api_key=64, versions="0", flexible="0+"):
    """Whether a broker was forgotten."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class GetTelemetrySubscriptionsResponse(Message, api_key=71, versions="0", flexible="0+"):
    """Which metrics a client is to send."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    client_instance_id: bytes = uuid("0+", default=ZERO_UUID)
    subscription_id: int = int32("0+")
    accepted_compression_types: list[int] = array("int8", "0+")
    push_interval_ms: int = int32("0+")
    telemetry_max_bytes: int = int32("0+")
    delta_temporality: bool = boolean("0+")
    requested_metrics: list[str] = array("string", "0+")


class PushTelemetryResponse(Message, api_key=72, versions="0", flexible="0+"):
    """Whether the metrics of a client were taken."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")


class ListConfigResourcesResponse(Message, api_key=74, versions="0-1", flexible="0+"):
    """What has a configuration."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    config_resources: list[Undeclared] = array(Undeclared, "0+")


class AddRaftVoterResponse(Message, api_key=80, versions="0-1", flexible="0+"):
    """Whether a controller was added."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", ignorable=True)


class RemoveRaftVoterResponse(Message, api_key=81, versions="0", flexible="0+"):
    """Whether a controller was removed."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", ignorable=True)


class UnregisterControllerResponse(Message, api_key=94, versions="0", flexible="0+"):
    """Whether a controller was forgotten."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")

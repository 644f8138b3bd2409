"""Metadata and DescribeTopicPartitions."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import describe_topic_partitions, metadata
from seglog.protocol.kafka.schema import NOT_REQUESTED
from seglog.protocol.kafka.translate.operation import Operation, older_error

_ERROR_LADDER: Final = {
    ErrorCode.LISTENER_NOT_FOUND: (6, ErrorCode.LEADER_NOT_AVAILABLE),
    ErrorCode.UNKNOWN_TOPIC_ID: (12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}


def read_metadata(message: metadata.MetadataRequest, version: int) -> api.MetadataRequest:
    """Tell names from ids, and "all topics" from "no topics"."""
    topics = message.topics
    if version == 0 and not topics:
        topics = None
    request = api.MetadataRequest(
        None,
        [],
        message.allow_auto_topic_creation,
        message.include_cluster_authorized_operations,
        message.include_topic_authorized_operations,
    )
    if topics is not None:
        request.topics = [topic.name for topic in topics if topic.name is not None]
        request.topic_ids = [topic.topic_id for topic in topics if topic.name is None]
    return request


def write_metadata(response: api.MetadataResponse, version: int) -> metadata.MetadataResponse:
    """Leave out what the version does not have."""
    with_cluster_operations = 8 <= version <= 10
    return metadata.MetadataResponse(
        throttle_time_ms=response.throttle_time_ms,
        brokers=[
            metadata.MetadataResponseBroker(
                node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack
            )
            for broker in response.brokers
        ],
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        topics=[_write_topic(topic, version) for topic in response.topics],
        cluster_authorized_operations=(
            response.authorized_operations if with_cluster_operations else NOT_REQUESTED
        ),
        error_code=response.error,
    )


def _write_topic(topic: api.TopicMetadata, version: int) -> metadata.MetadataResponseTopic:
    return metadata.MetadataResponseTopic(
        error_code=older_error(topic.error, version, _ERROR_LADDER),
        name=(topic.name or "") if version < 12 else topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            metadata.MetadataResponsePartition(
                error_code=older_error(partition.error, version, _ERROR_LADDER),
                partition_index=partition.partition,
                leader_id=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replica_ids,
                isr_nodes=partition.isr_ids,
                offline_replicas=partition.offline_replica_ids,
            )
            for partition in topic.partitions
        ],
        topic_authorized_operations=topic.authorized_operations if version >= 8 else NOT_REQUESTED,
    )


def fail_metadata(
    request: api.MetadataRequest, error: ErrorCode, _message: str | None
) -> api.MetadataResponse:
    """Refuse every topic that was named; "all topics" become none, with the error above them."""
    topics = [
        api.TopicMetadata(name, api.ZERO_TOPIC_ID, [], error) for name in request.topics or ()
    ]
    topics += [api.TopicMetadata(None, topic_id, [], error) for topic_id in request.topic_ids]
    return api.MetadataResponse([], "", -1, topics, error)


def read_topic_partitions(
    message: describe_topic_partitions.DescribeTopicPartitionsRequest, _version: int
) -> api.DescribeTopicPartitionsRequest:
    """Unwrap names and cursor."""
    cursor = message.cursor
    return api.DescribeTopicPartitionsRequest(
        [topic.name for topic in message.topics],
        message.response_partition_limit,
        None if cursor is None else (cursor.topic_name, cursor.partition_index),
    )


def write_topic_partitions(
    response: api.DescribeTopicPartitionsResponse, _version: int
) -> describe_topic_partitions.DescribeTopicPartitionsResponse:
    """As metadata; the replicas that are eligible beyond the in-sync ones are not tracked."""
    cursor = response.next_cursor
    return describe_topic_partitions.DescribeTopicPartitionsResponse(
        throttle_time_ms=response.throttle_time_ms,
        topics=[
            describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
                error_code=topic.error,
                name=topic.name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partitions=[
                    describe_topic_partitions.DescribeTopicPartitionsResponsePartition(
                        error_code=partition.error,
                        partition_index=partition.partition,
                        leader_id=partition.leader_id,
                        leader_epoch=partition.leader_epoch,
                        replica_nodes=partition.replica_ids,
                        isr_nodes=partition.isr_ids,
                        # Null is allowed, but the Java client cannot read it.
                        eligible_leader_replicas=[],
                        last_known_elr=[],
                        offline_replicas=partition.offline_replica_ids,
                    )
                    for partition in topic.partitions
                ],
                topic_authorized_operations=topic.authorized_operations,
            )
            for topic in response.topics
        ],
        next_cursor=(
            None
            if cursor is None
            else describe_topic_partitions.Cursor(topic_name=cursor[0], partition_index=cursor[1])
        ),
    )


def fail_topic_partitions(
    request: api.DescribeTopicPartitionsRequest, error: ErrorCode, _message: str | None
) -> api.DescribeTopicPartitionsResponse:
    """Refuse every topic that was named."""
    return api.DescribeTopicPartitionsResponse(
        [api.TopicMetadata(name, api.ZERO_TOPIC_ID, [], error) for name in request.topics]
    )


OPERATIONS: Final = (
    Operation(
        ApiKey.METADATA,
        metadata.MetadataRequest,
        metadata.MetadataResponse,
        read_metadata,
        write_metadata,
        fail_metadata,
    ),
    Operation(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        describe_topic_partitions.DescribeTopicPartitionsRequest,
        describe_topic_partitions.DescribeTopicPartitionsResponse,
        read_topic_partitions,
        write_topic_partitions,
        fail_topic_partitions,
    ),
)

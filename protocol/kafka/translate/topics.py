"""Metadata, DescribeTopicPartitions, and creating, growing and deleting topics."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_topic_partitions,
    metadata,
)
from seglog.protocol.kafka.schema import NOT_REQUESTED
from seglog.protocol.kafka.translate.operation import Operation, older_error

_METADATA_ERROR_LADDER: Final = {
    ErrorCode.LISTENER_NOT_FOUND: (6, ErrorCode.LEADER_NOT_AVAILABLE),
    ErrorCode.UNKNOWN_TOPIC_ID: (12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}
_DELETE_ERROR_LADDER: Final = {
    ErrorCode.TOPIC_DELETION_DISABLED: (3, ErrorCode.INVALID_REQUEST),
    ErrorCode.UNKNOWN_TOPIC_ID: (6, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
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
        error_code=older_error(topic.error, version, _METADATA_ERROR_LADDER),
        name=(topic.name or "") if version < 12 else topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            metadata.MetadataResponsePartition(
                error_code=older_error(partition.error, version, _METADATA_ERROR_LADDER),
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


def read_create_topics(
    message: create_topics.CreateTopicsRequest, _version: int
) -> api.CreateTopicsRequest:
    """Key assignments by partition, overrides by name."""
    return api.CreateTopicsRequest(
        [
            api.NewTopic(
                topic.name,
                topic.num_partitions,
                topic.replication_factor,
                {each.name: each.value for each in topic.configs},
                {each.partition_index: each.broker_ids for each in topic.assignments},
            )
            for topic in message.topics
        ],
        message.timeout_ms,
        message.validate_only,
    )


def write_create_topics(
    response: api.CreateTopicsResponse, _version: int
) -> create_topics.CreateTopicsResponse:
    """Counts, configuration and id are dropped where the version has no room for them."""
    return create_topics.CreateTopicsResponse(
        throttle_time_ms=response.throttle_time_ms,
        topics=[
            create_topics.CreatableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=topic.error,
                error_message=topic.error_message,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                configs=[
                    create_topics.CreatableTopicConfigs(
                        name=entry.name,
                        value=entry.value,
                        read_only=entry.is_read_only,
                        config_source=entry.source,
                        is_sensitive=entry.is_sensitive,
                    )
                    for entry in topic.configs
                ],
            )
            for topic in response.topics
        ],
    )


def fail_create_topics(
    request: api.CreateTopicsRequest, error: ErrorCode, message: str | None
) -> api.CreateTopicsResponse:
    """Refuse every topic."""
    return api.CreateTopicsResponse(
        [api.CreateTopicResult(topic.name, error, message) for topic in request.topics]
    )


def read_delete_topics(
    message: delete_topics.DeleteTopicsRequest, version: int
) -> api.DeleteTopicsRequest:
    """Tell names from ids."""
    if version < 6:
        return api.DeleteTopicsRequest(message.topic_names, [], message.timeout_ms)
    return api.DeleteTopicsRequest(
        [topic.name for topic in message.topics if topic.name is not None],
        [topic.topic_id for topic in message.topics if topic.name is None],
        message.timeout_ms,
    )


def write_delete_topics(
    response: api.DeleteTopicsResponse, version: int
) -> delete_topics.DeleteTopicsResponse:
    """One result a topic."""
    return delete_topics.DeleteTopicsResponse(
        throttle_time_ms=response.throttle_time_ms,
        responses=[
            delete_topics.DeletableTopicResult(
                name=(topic.name or "") if version < 6 else topic.name,
                topic_id=topic.topic_id,
                error_code=older_error(topic.error, version, _DELETE_ERROR_LADDER),
                error_message=topic.error_message,
            )
            for topic in response.topics
        ],
    )


def fail_delete_topics(
    request: api.DeleteTopicsRequest, error: ErrorCode, message: str | None
) -> api.DeleteTopicsResponse:
    """Refuse every topic."""
    results = [api.DeleteTopicResult(name, error, message) for name in request.names]
    results += [
        api.DeleteTopicResult(None, error, message, topic_id) for topic_id in request.topic_ids
    ]
    return api.DeleteTopicsResponse(results)


def read_create_partitions(
    message: create_partitions.CreatePartitionsRequest, _version: int
) -> api.CreatePartitionsRequest:
    """Unwrap the assignments."""
    return api.CreatePartitionsRequest(
        [
            api.NewPartitions(
                topic.name,
                topic.count,
                (
                    None
                    if topic.assignments is None
                    else [each.broker_ids for each in topic.assignments]
                ),
            )
            for topic in message.topics
        ],
        message.timeout_ms,
        message.validate_only,
    )


def write_create_partitions(
    response: api.CreatePartitionsResponse, _version: int
) -> create_partitions.CreatePartitionsResponse:
    """One result a topic."""
    return create_partitions.CreatePartitionsResponse(
        throttle_time_ms=response.throttle_time_ms,
        results=[
            create_partitions.CreatePartitionsTopicResult(
                name=topic.name, error_code=topic.error, error_message=topic.error_message
            )
            for topic in response.topics
        ],
    )


def fail_create_partitions(
    request: api.CreatePartitionsRequest, error: ErrorCode, message: str | None
) -> api.CreatePartitionsResponse:
    """Refuse every topic."""
    return api.CreatePartitionsResponse(
        [api.CreatePartitionsResult(topic.name, error, message) for topic in request.topics]
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
    Operation(
        ApiKey.CREATE_TOPICS,
        create_topics.CreateTopicsRequest,
        create_topics.CreateTopicsResponse,
        read_create_topics,
        write_create_topics,
        fail_create_topics,
    ),
    Operation(
        ApiKey.DELETE_TOPICS,
        delete_topics.DeleteTopicsRequest,
        delete_topics.DeleteTopicsResponse,
        read_delete_topics,
        write_delete_topics,
        fail_delete_topics,
    ),
    Operation(
        ApiKey.CREATE_PARTITIONS,
        create_partitions.CreatePartitionsRequest,
        create_partitions.CreatePartitionsResponse,
        read_create_partitions,
        write_create_partitions,
        fail_create_partitions,
    ),
)

"""Creating, growing and deleting topics."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import create_partitions, create_topics, delete_topics
from seglog.protocol.kafka.translate.operation import Operation, older_error

_DELETE_ERROR_LADDER: Final = {
    ErrorCode.TOPIC_DELETION_DISABLED: (3, ErrorCode.INVALID_REQUEST),
    ErrorCode.UNKNOWN_TOPIC_ID: (6, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}


def read_create_topics(
    message: create_topics.CreateTopicsRequest, _version: int
) -> api.CreateTopicsRequest:
    """Key assignments by partition, overrides by name.

    A partition that is assigned twice gets the replicas of both, which is refused.
    """
    return api.CreateTopicsRequest(
        [
            api.NewTopic(
                topic.name,
                topic.num_partitions,
                topic.replication_factor,
                {each.name: each.value for each in topic.configs},
                _assignments(topic.assignments),
            )
            for topic in message.topics
        ],
        message.timeout_ms,
        message.validate_only,
    )


def _assignments(
    assignments: list[create_topics.CreatableReplicaAssignment],
) -> dict[int, list[int]]:
    by_partition: dict[int, list[int]] = {}
    for each in assignments:
        by_partition.setdefault(each.partition_index, []).extend(each.broker_ids)
    return by_partition


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
    request = api.DeleteTopicsRequest(timeout_ms=message.timeout_ms)
    for topic in message.topics:
        if topic.name is None:
            request.topic_ids.append(topic.topic_id)
        elif topic.topic_id == api.ZERO_TOPIC_ID:
            request.names.append(topic.name)
        else:
            request.named_twofold.append((topic.name, topic.topic_id))
    return request


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
    results += [
        api.DeleteTopicResult(name, error, message, topic_id)
        for name, topic_id in request.named_twofold
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

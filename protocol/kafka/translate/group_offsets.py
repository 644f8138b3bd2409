"""OffsetCommit, OffsetFetch and OffsetDelete: the offsets of groups."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import offset_commit, offset_delete, offset_fetch
from seglog.protocol.kafka.translate.committed_offsets import (
    read_offsets,
    refused,
    write_results,
)
from seglog.protocol.kafka.translate.operation import (
    Operation,
    by_topic,
    older_error,
    runs_of_topic,
)

_COMMIT_ERROR_LADDER: Final = {
    ErrorCode.GROUP_ID_NOT_FOUND: (9, ErrorCode.ILLEGAL_GENERATION),
    ErrorCode.STALE_MEMBER_EPOCH: (9, ErrorCode.UNKNOWN_MEMBER_ID),
    ErrorCode.UNKNOWN_TOPIC_ID: (10, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}
_FETCH_ERROR_LADDER: Final = {
    ErrorCode.STALE_MEMBER_EPOCH: (9, ErrorCode.UNKNOWN_MEMBER_ID),
    ErrorCode.UNKNOWN_TOPIC_ID: (10, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}
_FIRST_WITH_GROUP_ERROR: Final = 2
_FIRST_WITH_GROUP_LIST: Final = 8


def read_commit(
    message: offset_commit.OffsetCommitRequest, _version: int
) -> api.OffsetCommitRequest:
    """Flatten topics and partitions."""
    return api.OffsetCommitRequest(
        message.group_id,
        read_offsets(message.topics),
        message.generation_id_or_member_epoch,
        message.member_id,
        message.group_instance_id,
        message.retention_time_ms,
    )


def write_commit(
    response: api.OffsetCommitResponse, version: int
) -> offset_commit.OffsetCommitResponse:
    """Nest the results by topic."""
    return offset_commit.OffsetCommitResponse(
        throttle_time_ms=response.throttle_time_ms,
        topics=write_results(
            response.partitions,
            version,
            _COMMIT_ERROR_LADDER,
            offset_commit.OffsetCommitResponseTopic,
            offset_commit.OffsetCommitResponsePartition,
        ),
    )


def fail_commit(
    request: api.OffsetCommitRequest, error: ErrorCode, _message: str | None
) -> api.OffsetCommitResponse:
    """Refuse every partition."""
    return api.OffsetCommitResponse(refused(request.partitions, error))


def read_fetch(message: offset_fetch.OffsetFetchRequest, version: int) -> api.OffsetFetchRequest:
    """One group or several, always as a list; null topics stay "all"."""
    if version >= _FIRST_WITH_GROUP_LIST:
        groups = [
            api.OffsetFetchGroup(
                group.group_id,
                (
                    None
                    if group.topics is None
                    else [
                        api.OffsetFetchPartition(topic.name, partition, topic.topic_id)
                        for topic in group.topics
                        for partition in topic.partition_indexes
                    ]
                ),
                group.member_id,
                group.member_epoch,
            )
            for group in message.groups
        ]
    else:
        partitions = None
        if message.topics is not None:
            partitions = [
                api.OffsetFetchPartition(topic.name, partition)
                for topic in message.topics
                for partition in topic.partition_indexes
            ]
        groups = [api.OffsetFetchGroup(message.group_id, partitions)]
    return api.OffsetFetchRequest(groups, message.require_stable)


def write_fetch(
    response: api.OffsetFetchResponse, version: int
) -> offset_fetch.OffsetFetchResponse:
    """A list of groups, or the only one of it in the old fields."""
    if version >= _FIRST_WITH_GROUP_LIST:
        return offset_fetch.OffsetFetchResponse(
            throttle_time_ms=response.throttle_time_ms,
            topics=[],
            groups=[_write_group(group, version) for group in response.groups],
        )
    return _write_only_group(response.groups[0], response.throttle_time_ms, version)


def _write_group(
    group: api.OffsetFetchGroupResult, version: int
) -> offset_fetch.OffsetFetchResponseGroup:
    return offset_fetch.OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=[
            offset_fetch.OffsetFetchResponseTopics(
                name=topic,
                topic_id=topic_id,
                partitions=[
                    offset_fetch.OffsetFetchResponsePartitions(
                        partition_index=result.partition,
                        committed_offset=result.offset,
                        committed_leader_epoch=result.leader_epoch,
                        metadata=result.metadata,
                        error_code=older_error(result.error, version, _FETCH_ERROR_LADDER),
                    )
                    for result in results
                ],
            )
            for (topic, topic_id), results in runs_of_topic(group.partitions)
        ],
        error_code=older_error(group.error, version, _FETCH_ERROR_LADDER),
    )


def _write_only_group(
    group: api.OffsetFetchGroupResult, throttle_time_ms: int, version: int
) -> offset_fetch.OffsetFetchResponse:
    group_error = older_error(group.error, version, _FETCH_ERROR_LADDER)
    return offset_fetch.OffsetFetchResponse(
        throttle_time_ms=throttle_time_ms,
        topics=[
            offset_fetch.OffsetFetchResponseTopic(
                name=topic,
                partitions=[
                    offset_fetch.OffsetFetchResponsePartition(
                        partition_index=result.partition,
                        committed_offset=result.offset,
                        committed_leader_epoch=result.leader_epoch,
                        metadata=result.metadata,
                        # Version 1 has no other place for an error of the whole group.
                        error_code=(
                            group_error
                            if group_error and version < _FIRST_WITH_GROUP_ERROR
                            else older_error(result.error, version, _FETCH_ERROR_LADDER)
                        ),
                    )
                    for result in results
                ],
            )
            for topic, results in by_topic(group.partitions).items()
        ],
        error_code=group_error,
        groups=[],
    )


def fail_fetch(
    request: api.OffsetFetchRequest, error: ErrorCode, _message: str | None
) -> api.OffsetFetchResponse:
    """Refuse every group, and its partitions for the version that has no error of a group."""
    return api.OffsetFetchResponse(
        [
            api.OffsetFetchGroupResult(
                group.group_id,
                [
                    api.OffsetFetchResult(
                        entry.topic, entry.partition, error=error, topic_id=entry.topic_id
                    )
                    for entry in group.partitions or ()
                ],
                error,
            )
            for group in request.groups
        ]
    )


def read_delete(
    message: offset_delete.OffsetDeleteRequest, _version: int
) -> api.OffsetDeleteRequest:
    """Flatten topics and partitions."""
    return api.OffsetDeleteRequest(
        message.group_id,
        [
            (topic.name, entry.partition_index)
            for topic in message.topics
            for entry in topic.partitions
        ],
    )


def write_delete(
    response: api.OffsetDeleteResponse, _version: int
) -> offset_delete.OffsetDeleteResponse:
    """Nest the results by topic."""
    return offset_delete.OffsetDeleteResponse(
        error_code=response.error,
        throttle_time_ms=response.throttle_time_ms,
        topics=[
            offset_delete.OffsetDeleteResponseTopic(
                name=topic,
                partitions=[
                    offset_delete.OffsetDeleteResponsePartition(
                        partition_index=result.partition, error_code=result.error
                    )
                    for result in results
                ],
            )
            for topic, results in by_topic(response.partitions).items()
        ],
    )


def fail_delete(
    _request: api.OffsetDeleteRequest, error: ErrorCode, _message: str | None
) -> api.OffsetDeleteResponse:
    """Refuse the request."""
    return api.OffsetDeleteResponse([], error)


OPERATIONS: Final = (
    Operation(
        ApiKey.OFFSET_COMMIT,
        offset_commit.OffsetCommitRequest,
        offset_commit.OffsetCommitResponse,
        read_commit,
        write_commit,
        fail_commit,
    ),
    Operation(
        ApiKey.OFFSET_FETCH,
        offset_fetch.OffsetFetchRequest,
        offset_fetch.OffsetFetchResponse,
        read_fetch,
        write_fetch,
        fail_fetch,
    ),
    Operation(
        ApiKey.OFFSET_DELETE,
        offset_delete.OffsetDeleteRequest,
        offset_delete.OffsetDeleteResponse,
        read_delete,
        write_delete,
        fail_delete,
    ),
)

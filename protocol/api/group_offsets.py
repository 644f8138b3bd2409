"""The offsets of consumer groups: commit, fetch, delete."""

from typing import ClassVar, Final

from seglog.protocol.declaration.fields import (
    array,
    boolean,
    by_topic,
    error_code,
    int32,
    int64,
    kafka_only,
    string,
    topic_name,
    topic_uuid,
)
from seglog.protocol.declaration.keys import ZERO_TOPIC_ID, ApiKey
from seglog.protocol.declaration.layout import row
from seglog.protocol.declaration.operation import Operation
from seglog.protocol.declaration.shape import kafka_order, shape
from seglog.protocol.errors import ErrorCode

_COMMIT_ERRORS: Final = {
    ErrorCode.GROUP_ID_NOT_FOUND: (9, ErrorCode.ILLEGAL_GENERATION),
    ErrorCode.STALE_MEMBER_EPOCH: (9, ErrorCode.UNKNOWN_MEMBER_ID),
    ErrorCode.UNKNOWN_TOPIC_ID: (10, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}
_FETCH_ERRORS: Final = {
    ErrorCode.STALE_MEMBER_EPOCH: (9, ErrorCode.UNKNOWN_MEMBER_ID),
    ErrorCode.UNKNOWN_TOPIC_ID: (10, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
}
_FIRST_WITH_GROUP_ERROR: Final = 2


@shape
class OffsetCommitPartition:
    """The offset to store for one partition."""

    topic: str = topic_name("0-9", kafka="name", ignorable=True)
    partition: int = int32("0+", kafka="partition_index")
    offset: int = int64("0+", kafka="committed_offset")
    leader_epoch: int = int32("6+", kafka="committed_leader_epoch", default=-1, ignorable=True)
    commit_timestamp: ClassVar = kafka_only(int64("1", default=-1))
    metadata: str | None = string("0+", kafka="committed_metadata", nullable="0+", default=None)
    topic_id: bytes = topic_uuid("10+", default=ZERO_TOPIC_ID)


@kafka_order("group_id", "generation_id", "member_id", "group_instance_id", "retention_time_ms")
@shape
class OffsetCommitRequest:
    """Store offsets; generation -1 and an empty member id stand for a client outside of groups."""

    group_id: str = string("0+")
    partitions: list[OffsetCommitPartition] = by_topic(OffsetCommitPartition, "0+")
    generation_id: int = int32(
        "1+", kafka="generation_id_or_member_epoch", default=-1, ignorable=True
    )
    member_id: str = string("1+", default="", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)


@shape
class OffsetCommitResult:
    """What became of one offset."""

    topic: str = topic_name("0-9", kafka="name", ignorable=True)
    partition: int = int32("0+", kafka="partition_index")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE, older=_COMMIT_ERRORS)
    topic_id: bytes = topic_uuid("10+", default=ZERO_TOPIC_ID)


@kafka_order("throttle_time_ms")
@shape
class OffsetCommitResponse:
    """One result for each partition of the request."""

    partitions: list[OffsetCommitResult] = by_topic(
        OffsetCommitResult, "0+", runs="0+", answers="partitions"
    )
    throttle_time_ms: int = int32("3+", default=0, ignorable=True)


@shape
class OffsetFetchPartition:
    """A partition whose offset is asked for."""

    topic: str = topic_name("0-9", kafka="name", ignorable=True)
    partition: int = int32("0+", kafka="partition_index")
    topic_id: bytes = topic_uuid("10+", default=ZERO_TOPIC_ID)


@kafka_order("group_id", "member_id", "member_epoch")
@shape
class OffsetFetchGroup:
    """One group; ``partitions`` None means all that have an offset."""

    group_id: str = string("0+")
    partitions: list[OffsetFetchPartition] | None = by_topic(
        OffsetFetchPartition,
        "0+",
        inner="partition_indexes",
        is_bare=True,
        nullable="2+",
        default=None,
        absent=(),
    )
    member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = int32("9+", default=-1, ignorable=True)


@shape
class OffsetFetchRequest:
    """Read committed offsets; ``require_stable`` refuses those of open transactions.

    One group up to version 7, several from version 8 on.
    """

    groups: list[OffsetFetchGroup] = array(OffsetFetchGroup, "8+", only="0-7")
    require_stable: bool = boolean("7+", default=False)


@kafka_order("topic", "topic_id", "partition", "offset", "leader_epoch", "metadata", "error")
@shape
class OffsetFetchResult:
    """The offset of one partition, -1 where there is none."""

    topic: str = topic_name("0-9", kafka="name", ignorable=True)
    partition: int = int32("0+", kafka="partition_index")
    offset: int = int64("0+", kafka="committed_offset", default=-1)
    leader_epoch: int = int32("5+", kafka="committed_leader_epoch", default=-1, ignorable=True)
    metadata: str | None = string("0+", nullable="0+", default="")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE, older=_FETCH_ERRORS)
    topic_id: bytes = topic_uuid("10+", default=ZERO_TOPIC_ID)


@shape
class OffsetFetchGroupResult:
    """The offsets of one group, or an error for all of it."""

    group_id: str = string("8+", ignorable=True)
    partitions: list[OffsetFetchResult] = by_topic(
        OffsetFetchResult, "0+", runs="8+", answers="partitions", default_factory=list
    )
    error: ErrorCode = error_code("2+", default=ErrorCode.NONE, older=_FETCH_ERRORS, ignorable=True)


@kafka_order("throttle_time_ms")
@shape
class OffsetFetchResponse:
    """One result for each group of the request, in its order."""

    groups: list[OffsetFetchGroupResult] = array(
        OffsetFetchGroupResult, "8+", only="0-7", answers="groups"
    )
    throttle_time_ms: int = int32("3+", default=0, ignorable=True)


@shape
class OffsetDeleteRequest:
    """Delete the offsets of some ``(topic, partition)`` pairs."""

    group_id: str = string("0+")
    partitions: list[tuple[str, int]] = by_topic(
        row(topic=topic_name("0+", kafka="name"), partition=int32("0+", kafka="partition_index")),
        "0+",
    )


@shape
class OffsetDeleteResult:
    """What became of one offset."""

    topic: str = topic_name("0+", kafka="name")
    partition: int = int32("0+", kafka="partition_index")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)


@kafka_order("error", "throttle_time_ms")
@shape
class OffsetDeleteResponse:
    """One result for each partition of the request, or an error for all of it."""

    partitions: list[OffsetDeleteResult] = by_topic(OffsetDeleteResult, "0+")
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    throttle_time_ms: int = int32("0+", default=0, ignorable=True)


def _start_offset_fetch(response: OffsetFetchResponse, version: int) -> OffsetFetchResponse:
    """Say the error of a group at its partitions: version 1 has no other place for it."""
    if version >= _FIRST_WITH_GROUP_ERROR or not response.groups[0].error:
        return response
    only = response.groups[0]
    partitions = [
        OffsetFetchResult(each.topic, each.partition, each.offset, each.leader_epoch,
                          each.metadata, only.error, each.topic_id)
        for each in only.partitions
    ]  # fmt: skip
    group = OffsetFetchGroupResult(only.group_id, partitions, only.error)
    return OffsetFetchResponse([group], response.throttle_time_ms)


OPERATIONS: Final = (
    Operation(
        ApiKey.OFFSET_COMMIT,
        OffsetCommitRequest,
        OffsetCommitResponse,
        versions="0-10",
        served="2-10",
        flexible="8+",
    ),
    Operation(
        ApiKey.OFFSET_FETCH,
        OffsetFetchRequest,
        OffsetFetchResponse,
        versions="0-10",
        served="1-10",
        flexible="6+",
        start_response=_start_offset_fetch,
    ),
    Operation(ApiKey.OFFSET_DELETE, OffsetDeleteRequest, OffsetDeleteResponse, versions="0"),
)

"""The offsets of consumer groups: commit, fetch, delete."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.native.fields import (
    BOOLEAN,
    ERROR,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    TOPIC_ID,
    list_of,
    nullable,
)
from seglog.protocol.native.messages.common_fields import PLACE, PLACES, THROTTLE
from seglog.protocol.native.operation import Operation
from seglog.protocol.native.schema import Message

COMMITTED_PARTITION: Final = Message(
    api.OffsetCommitPartition,
    **PLACE,
    offset=INT64,
    leader_epoch=INT32,
    metadata=NULLABLE_STRING,
    topic_id=TOPIC_ID,
)
COMMIT_RESULT: Final = Message(api.OffsetCommitResult, **PLACE, error=ERROR, topic_id=TOPIC_ID)
OFFSET_COMMIT_REQUEST: Final = Message(
    api.OffsetCommitRequest,
    group_id=STRING,
    partitions=list_of(COMMITTED_PARTITION.field),
    generation_id=INT32,
    member_id=STRING,
    group_instance_id=NULLABLE_STRING,
    retention_time_ms=INT64,
)
OFFSET_COMMIT_RESPONSE: Final = Message(
    api.OffsetCommitResponse,
    partitions=list_of(COMMIT_RESULT.field),
    **THROTTLE,
)
OFFSET_FETCH_REQUEST: Final = Message(
    api.OffsetFetchRequest,
    groups=list_of(
        Message(
            api.OffsetFetchGroup,
            group_id=STRING,
            partitions=nullable(
                list_of(Message(api.OffsetFetchPartition, **PLACE, topic_id=TOPIC_ID).field)
            ),
            member_id=NULLABLE_STRING,
            member_epoch=INT32,
        ).field
    ),
    require_stable=BOOLEAN,
)
_FETCHED: Final = Message(
    api.OffsetFetchResult,
    **PLACE,
    offset=INT64,
    leader_epoch=INT32,
    metadata=NULLABLE_STRING,
    error=ERROR,
    topic_id=TOPIC_ID,
)
OFFSET_FETCH_RESPONSE: Final = Message(
    api.OffsetFetchResponse,
    groups=list_of(
        Message(
            api.OffsetFetchGroupResult,
            group_id=STRING,
            partitions=list_of(_FETCHED.field),
            error=ERROR,
        ).field
    ),
    **THROTTLE,
)
OFFSET_DELETE_REQUEST: Final = Message(api.OffsetDeleteRequest, group_id=STRING, partitions=PLACES)
OFFSET_DELETE_RESPONSE: Final = Message(
    api.OffsetDeleteResponse,
    partitions=list_of(Message(api.OffsetDeleteResult, **PLACE, error=ERROR).field),
    error=ERROR,
    **THROTTLE,
)

OPERATIONS: Final = (
    Operation(ApiKey.OFFSET_COMMIT, OFFSET_COMMIT_REQUEST, OFFSET_COMMIT_RESPONSE),
    Operation(ApiKey.OFFSET_FETCH, OFFSET_FETCH_REQUEST, OFFSET_FETCH_RESPONSE),
    Operation(ApiKey.OFFSET_DELETE, OFFSET_DELETE_REQUEST, OFFSET_DELETE_RESPONSE),
)

"""Produce and fetch."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.native.fields import (
    ERROR,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    RECORDS,
    STRING,
    TOPIC_ID,
    list_of,
    nullable,
    tuple_of,
)
from seglog.protocol.native.messages.common_fields import (
    ISOLATION,
    PLACE,
    THROTTLE,
)
from seglog.protocol.native.operation import Operation
from seglog.protocol.native.schema import Message

PRODUCE_REQUEST: Final = Message(
    api.ProduceRequest,
    acks=INT16,
    timeout_ms=INT32,
    partitions=list_of(
        Message(api.ProducePartition, **PLACE, records=RECORDS, topic_id=TOPIC_ID).field
    ),
    transactional_id=NULLABLE_STRING,
)
PRODUCE_RESPONSE: Final = Message(
    api.ProduceResponse,
    partitions=list_of(
        Message(
            api.ProducePartitionResult,
            **PLACE,
            error=ERROR,
            base_offset=INT64,
            log_append_time_ms=INT64,
            log_start_offset=INT64,
            record_errors=list_of(tuple_of(INT32, STRING)),
            error_message=NULLABLE_STRING,
            topic_id=TOPIC_ID,
        ).field
    ),
    **THROTTLE,
)
FETCH_REQUEST: Final = Message(
    api.FetchRequest,
    max_wait_ms=INT32,
    min_bytes=INT32,
    max_bytes=INT32,
    partitions=list_of(
        Message(
            api.FetchPartition,
            **PLACE,
            fetch_offset=INT64,
            max_bytes=INT32,
            current_leader_epoch=INT32,
            topic_id=TOPIC_ID,
        ).field
    ),
    isolation_level=ISOLATION,
)
FETCH_RESPONSE: Final = Message(
    api.FetchResponse,
    partitions=list_of(
        Message(
            api.FetchPartitionResult,
            **PLACE,
            error=ERROR,
            high_watermark=INT64,
            last_stable_offset=INT64,
            log_start_offset=INT64,
            records=RECORDS,
            aborted_transactions=nullable(list_of(tuple_of(INT64, INT64))),
            error_message=NULLABLE_STRING,
            topic_id=TOPIC_ID,
        ).field
    ),
    error=ERROR,
    **THROTTLE,
)
OPERATIONS: Final = (
    Operation(ApiKey.PRODUCE, PRODUCE_REQUEST, PRODUCE_RESPONSE),
    Operation(ApiKey.FETCH, FETCH_REQUEST, FETCH_RESPONSE),
)

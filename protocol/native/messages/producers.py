"""Producer ids, and the producers that partitions remember."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.native.fields import (
    ERROR,
    INT32,
    INT64,
    NULLABLE_STRING,
    list_of,
)
from seglog.protocol.native.messages.common_fields import OUTCOME, PLACE, PLACES, PRODUCER, THROTTLE
from seglog.protocol.native.operation import Operation
from seglog.protocol.native.schema import Message

INIT_PRODUCER_ID_REQUEST: Final = Message(
    api.InitProducerIdRequest,
    transactional_id=NULLABLE_STRING,
    transaction_timeout_ms=INT32,
    **PRODUCER,
)
INIT_PRODUCER_ID_RESPONSE: Final = Message(
    api.InitProducerIdResponse, error=ERROR, **PRODUCER, **THROTTLE
)
DESCRIBE_PRODUCERS_REQUEST: Final = Message(api.DescribeProducersRequest, partitions=PLACES)
_PRODUCER: Final = Message(
    api.ActiveProducer,
    producer_id=INT64,
    producer_epoch=INT32,
    last_sequence=INT32,
    last_timestamp_ms=INT64,
    coordinator_epoch=INT32,
    transaction_start_offset=INT64,
)
DESCRIBE_PRODUCERS_RESPONSE: Final = Message(
    api.DescribeProducersResponse,
    partitions=list_of(
        Message(
            api.DescribeProducersResult, **PLACE, **OUTCOME, producers=list_of(_PRODUCER.field)
        ).field
    ),
    **THROTTLE,
)

OPERATIONS: Final = (
    Operation(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_REQUEST, INIT_PRODUCER_ID_RESPONSE),
    Operation(ApiKey.DESCRIBE_PRODUCERS, DESCRIBE_PRODUCERS_REQUEST, DESCRIBE_PRODUCERS_RESPONSE),
)

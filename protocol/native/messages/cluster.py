"""The cluster itself, and where leader epochs ended."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.native.fields import (
    BOOLEAN,
    ERROR,
    INT16,
    INT32,
    INT64,
    STRING,
    list_of,
)
from seglog.protocol.native.messages.common_fields import OUTCOME, PLACE, THROTTLE
from seglog.protocol.native.messages.topics import BROKER
from seglog.protocol.native.operation import Operation
from seglog.protocol.native.schema import Message

OFFSET_FOR_LEADER_EPOCH_REQUEST: Final = Message(
    api.OffsetForLeaderEpochRequest,
    partitions=list_of(
        Message(
            api.OffsetForLeaderEpochPartition,
            **PLACE,
            leader_epoch=INT32,
            current_leader_epoch=INT32,
        ).field
    ),
    replica_id=INT32,
)
OFFSET_FOR_LEADER_EPOCH_RESPONSE: Final = Message(
    api.OffsetForLeaderEpochResponse,
    partitions=list_of(
        Message(
            api.OffsetForLeaderEpochResult,
            **PLACE,
            error=ERROR,
            leader_epoch=INT32,
            end_offset=INT64,
        ).field
    ),
    **THROTTLE,
)
DESCRIBE_CLUSTER_REQUEST: Final = Message(
    api.DescribeClusterRequest,
    include_authorized_operations=BOOLEAN,
    endpoint_type=INT16,
    include_fenced_brokers=BOOLEAN,
)
DESCRIBE_CLUSTER_RESPONSE: Final = Message(
    api.DescribeClusterResponse,
    cluster_id=STRING,
    controller_id=INT32,
    brokers=list_of(BROKER.field),
    **OUTCOME,
    endpoint_type=INT16,
    authorized_operations=INT32,
    **THROTTLE,
)

OPERATIONS: Final = (
    Operation(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        OFFSET_FOR_LEADER_EPOCH_REQUEST,
        OFFSET_FOR_LEADER_EPOCH_RESPONSE,
    ),
    Operation(ApiKey.DESCRIBE_CLUSTER, DESCRIBE_CLUSTER_REQUEST, DESCRIBE_CLUSTER_RESPONSE),
)

"""The cluster itself."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.native.fields import (
    BOOLEAN,
    INT16,
    INT32,
    STRING,
    list_of,
)
from seglog.protocol.native.messages.common_fields import OUTCOME, THROTTLE
from seglog.protocol.native.messages.topics import BROKER
from seglog.protocol.native.operation import Operation
from seglog.protocol.native.schema import Message

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
    Operation(ApiKey.DESCRIBE_CLUSTER, DESCRIBE_CLUSTER_REQUEST, DESCRIBE_CLUSTER_RESPONSE),
)

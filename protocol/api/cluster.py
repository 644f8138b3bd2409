"""What clients ask about the cluster beyond plain metadata."""

from typing import Final

from seglog.protocol.api.metadata import BrokerMetadata
from seglog.protocol.declaration.fields import (
    array,
    boolean,
    error_code,
    int8,
    int32,
    kafka_only,
    string,
)
from seglog.protocol.declaration.keys import AUTHORIZED_OPERATIONS_NOT_REQUESTED, ApiKey
from seglog.protocol.declaration.layout import variant
from seglog.protocol.declaration.operation import Operation
from seglog.protocol.declaration.shape import kafka_order, shape
from seglog.protocol.errors import ErrorCode


@shape
class DescribeClusterRequest:
    """Describe the cluster; ``endpoint_type`` is 1 for brokers, 2 for controllers."""

    include_authorized_operations: bool = boolean(
        "0+", kafka="include_cluster_authorized_operations", default=False
    )
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+", default=False)


@kafka_order("throttle_time_ms", "error", "error_message", "endpoint_type")
@shape
class DescribeClusterResponse:
    """The cluster as the broker sees it."""

    cluster_id: str = string("0+")
    controller_id: int = int32("0+", default=-1)
    brokers: list[BrokerMetadata] = array(
        variant(
            BrokerMetadata,
            node_id=int32("0+", kafka="broker_id"),
            host=string("0+"),
            port=int32("0+"),
            rack=string("0+", nullable="0+", default=None),
            # Every broker that is known is alive.
            is_fenced=kafka_only(boolean("2+", default=False)),
        ),
        "0+",
        default_factory=list,
    )
    error: ErrorCode = error_code("0+", default=ErrorCode.NONE)
    error_message: str | None = string("0+", nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1, ignorable=True, is_echoed=True)
    authorized_operations: int = int32(
        "0+",
        kafka="cluster_authorized_operations",
        default=AUTHORIZED_OPERATIONS_NOT_REQUESTED,
    )
    throttle_time_ms: int = int32("0+", default=0)


OPERATIONS: Final = (
    Operation(
        ApiKey.DESCRIBE_CLUSTER,
        DescribeClusterRequest,
        DescribeClusterResponse,
        versions="0-2",
        flexible="0+",
    ),
)

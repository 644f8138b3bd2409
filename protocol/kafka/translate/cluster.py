"""DescribeCluster."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import describe_cluster
from seglog.protocol.kafka.translate.operation import Operation


def read_cluster(
    message: describe_cluster.DescribeClusterRequest, _version: int
) -> api.DescribeClusterRequest:
    """The fields as they are."""
    return api.DescribeClusterRequest(
        message.include_cluster_authorized_operations,
        message.endpoint_type,
        message.include_fenced_brokers,
    )


def write_cluster(
    response: api.DescribeClusterResponse, version: int
) -> describe_cluster.DescribeClusterResponse:
    """Every broker that is known is alive, so none is fenced."""
    return describe_cluster.DescribeClusterResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=response.error,
        error_message=response.error_message,
        endpoint_type=response.endpoint_type if version >= 1 else 1,
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        brokers=[
            describe_cluster.DescribeClusterBroker(
                broker_id=broker.node_id,
                host=broker.host,
                port=broker.port,
                rack=broker.rack,
                is_fenced=False,
            )
            for broker in response.brokers
        ],
        cluster_authorized_operations=response.authorized_operations,
    )


def fail_cluster(
    request: api.DescribeClusterRequest, error: ErrorCode, message: str | None
) -> api.DescribeClusterResponse:
    """Refuse the request."""
    return api.DescribeClusterResponse(
        "", error=error, error_message=message, endpoint_type=request.endpoint_type
    )


OPERATIONS: Final = (
    Operation(
        ApiKey.DESCRIBE_CLUSTER,
        describe_cluster.DescribeClusterRequest,
        describe_cluster.DescribeClusterResponse,
        read_cluster,
        write_cluster,
        fail_cluster,
    ),
)

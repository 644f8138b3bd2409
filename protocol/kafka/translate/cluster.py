"""DescribeCluster and DescribeLogDirs."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode
from seglog.protocol.kafka.messages import describe_cluster, describe_log_dirs
from seglog.protocol.kafka.translate.operation import Operation, by_topic


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


def read_log_dirs(
    message: describe_log_dirs.DescribeLogDirsRequest, _version: int
) -> api.DescribeLogDirsRequest:
    """Flatten topics and partitions; null stays "all"."""
    if message.topics is None:
        return api.DescribeLogDirsRequest(None)
    return api.DescribeLogDirsRequest(
        [(topic.topic, partition) for topic in message.topics for partition in topic.partitions]
    )


def write_log_dirs(
    response: api.DescribeLogDirsResponse, _version: int
) -> describe_log_dirs.DescribeLogDirsResponse:
    """Nest the partitions of each directory by topic."""
    return describe_log_dirs.DescribeLogDirsResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=ErrorCode.NONE,
        results=[
            describe_log_dirs.DescribeLogDirsResult(
                error_code=log_dir.error,
                log_dir=log_dir.path,
                topics=[
                    describe_log_dirs.DescribeLogDirsTopic(
                        name=topic,
                        partitions=[
                            describe_log_dirs.DescribeLogDirsPartition(
                                partition_index=entry.partition,
                                partition_size=entry.size_bytes,
                                offset_lag=entry.offset_lag,
                                is_future_key=entry.is_future,
                            )
                            for entry in entries
                        ],
                    )
                    for topic, entries in by_topic(log_dir.partitions).items()
                ],
                total_bytes=log_dir.total_bytes,
                usable_bytes=log_dir.usable_bytes,
            )
            for log_dir in response.log_dirs
        ],
    )


def fail_log_dirs(
    _request: api.DescribeLogDirsRequest, error: ErrorCode, _message: str | None
) -> api.DescribeLogDirsResponse:
    """Refuse the request; old versions have only the error of a directory to say so."""
    return api.DescribeLogDirsResponse([api.LogDirDescription("", error, [])])


OPERATIONS: Final = (
    Operation(
        ApiKey.DESCRIBE_CLUSTER,
        describe_cluster.DescribeClusterRequest,
        describe_cluster.DescribeClusterResponse,
        read_cluster,
        write_cluster,
        fail_cluster,
    ),
    Operation(
        ApiKey.DESCRIBE_LOG_DIRS,
        describe_log_dirs.DescribeLogDirsRequest,
        describe_log_dirs.DescribeLogDirsResponse,
        read_log_dirs,
        write_log_dirs,
        fail_log_dirs,
    ),
)

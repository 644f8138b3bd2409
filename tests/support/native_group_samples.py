"""One filled request and response of the native operations of groups, producers and the cluster."""

from typing import Any

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.errors import ErrorCode

TOPIC_ID = bytes(range(16))


def membership_samples() -> dict[ApiKey, tuple[Any, Any]]:
    return {
        ApiKey.FIND_COORDINATOR: (
            api.FindCoordinatorRequest(["readers"], api.CoordinatorType.TRANSACTION),
            api.FindCoordinatorResponse(
                [
                    api.Coordinator(
                        "readers", 1, "localhost", 9092, ErrorCode.INVALID_REQUEST, "what"
                    )
                ],
                7,
            ),
        ),
        ApiKey.JOIN_GROUP: (
            api.JoinGroupRequest(
                "readers", "m-1", 6000, 300000, "consumer", [("range", b"\x00")], "i-1", "new"
            ),
            api.JoinGroupResponse(
                "m-1",
                ErrorCode.MEMBER_ID_REQUIRED,
                3,
                "consumer",
                "range",
                "m-2",
                skip_assignment=True,
                members=[api.JoinedMember("m-2", "i-2", b"\x01")],
                throttle_time_ms=7,
            ),
        ),
        ApiKey.SYNC_GROUP: (
            api.SyncGroupRequest("readers", 3, "m-1", "i-1", "consumer", "range", {"m-2": b"\x02"}),
            api.SyncGroupResponse(
                ErrorCode.REBALANCE_IN_PROGRESS, "consumer", "range", b"\x03", throttle_time_ms=7
            ),
        ),
        ApiKey.HEARTBEAT: (
            api.HeartbeatRequest("readers", 3, "m-1", "i-1"),
            api.HeartbeatResponse(ErrorCode.ILLEGAL_GENERATION, 7),
        ),
        ApiKey.LEAVE_GROUP: (
            api.LeaveGroupRequest("readers", [api.LeavingMember("m-1", "i-1", "done")]),
            api.LeaveGroupResponse(
                [api.LeaveGroupResult("m-1", "i-1", ErrorCode.FENCED_INSTANCE_ID)],
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                7,
            ),
        ),
    }


def group_admin_samples() -> dict[ApiKey, tuple[Any, Any]]:
    return {
        ApiKey.LIST_GROUPS: (
            api.ListGroupsRequest(["Stable"], ["classic"]),
            api.ListGroupsResponse(
                [api.ListedGroup("readers", "consumer", "Stable", "consumer")],
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                7,
            ),
        ),
        ApiKey.DESCRIBE_GROUPS: (
            api.DescribeGroupsRequest(["readers"], include_authorized_operations=True),
            api.DescribeGroupsResponse(
                [
                    api.GroupDescription(
                        "readers",
                        ErrorCode.GROUP_ID_NOT_FOUND,
                        "gone",
                        "Dead",
                        "consumer",
                        "range",
                        [
                            api.GroupMemberDescription(
                                "m-1", "i-1", "app", "/127.0.0.1", b"\x04", b"\x05"
                            )
                        ],
                        328,
                    )
                ],
                7,
            ),
        ),
        ApiKey.DELETE_GROUPS: (
            api.DeleteGroupsRequest(["readers"]),
            api.DeleteGroupsResponse(
                [api.DeleteGroupResult("readers", ErrorCode.NON_EMPTY_GROUP, "busy")], 7
            ),
        ),
    }


def offset_samples() -> dict[ApiKey, tuple[Any, Any]]:
    return {
        ApiKey.OFFSET_COMMIT: (
            api.OffsetCommitRequest(
                "readers",
                [api.OffsetCommitPartition("flights", 0, 2**40, 3, "note", TOPIC_ID)],
                3,
                "m-1",
                "i-1",
                86400000,
            ),
            api.OffsetCommitResponse(
                [
                    api.OffsetCommitResult(
                        "flights", 0, ErrorCode.OFFSET_METADATA_TOO_LARGE, TOPIC_ID
                    )
                ],
                7,
            ),
        ),
        ApiKey.OFFSET_FETCH: (
            api.OffsetFetchRequest(
                [
                    api.OffsetFetchGroup(
                        "readers", [api.OffsetFetchPartition("flights", 0, TOPIC_ID)], "m-1", 3
                    ),
                    api.OffsetFetchGroup("all-of-it"),
                ],
                require_stable=True,
            ),
            api.OffsetFetchResponse(
                [
                    api.OffsetFetchGroupResult(
                        "readers",
                        [
                            api.OffsetFetchResult(
                                "flights",
                                0,
                                2**40,
                                3,
                                "note",
                                ErrorCode.UNSTABLE_OFFSET_COMMIT,
                                TOPIC_ID,
                            )
                        ],
                        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                    )
                ],
                7,
            ),
        ),
        ApiKey.OFFSET_DELETE: (
            api.OffsetDeleteRequest("readers", [("flights", 0)]),
            api.OffsetDeleteResponse(
                [api.OffsetDeleteResult("flights", 0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)],
                ErrorCode.GROUP_ID_NOT_FOUND,
                7,
            ),
        ),
    }


def producer_samples() -> dict[ApiKey, tuple[Any, Any]]:
    return {
        ApiKey.INIT_PRODUCER_ID: (
            api.InitProducerIdRequest("tx", 30000, 1000, 2),
            api.InitProducerIdResponse(ErrorCode.PRODUCER_FENCED, 1000, 3, 7),
        ),
        ApiKey.DESCRIBE_PRODUCERS: (
            api.DescribeProducersRequest([("flights", 0)]),
            api.DescribeProducersResponse(
                [
                    api.DescribeProducersResult(
                        "flights",
                        0,
                        ErrorCode.NOT_LEADER_OR_FOLLOWER,
                        "moved",
                        [api.ActiveProducer(1000, 3, 41, 1372896000000, 2, 90)],
                    )
                ],
                7,
            ),
        ),
    }


def transaction_samples() -> dict[ApiKey, tuple[Any, Any]]:
    return {
        ApiKey.END_TXN: (
            api.EndTxnRequest("tx", 1000, 2, commit=True, bumps_epoch=True),
            api.EndTxnResponse(ErrorCode.CONCURRENT_TRANSACTIONS, 1000, 3, 7),
        ),
        ApiKey.WRITE_TXN_MARKERS: (
            api.WriteTxnMarkersRequest(
                [
                    api.TransactionEnd(
                        1000,
                        2,
                        commit=True,
                        partitions=[("flights", 1)],
                        coordinator_epoch=4,
                        transaction_version=2,
                    )
                ]
            ),
            api.WriteTxnMarkersResponse(
                [
                    api.TransactionEndResult(
                        1000,
                        [
                            api.TransactionEndPartitionResult(
                                "flights", 1, ErrorCode.INVALID_PRODUCER_EPOCH
                            )
                        ],
                    )
                ]
            ),
        ),
        ApiKey.TXN_OFFSET_COMMIT: (
            api.TxnOffsetCommitRequest(
                "tx",
                "readers",
                1000,
                2,
                [api.OffsetCommitPartition("flights", 0, 41, 3, "half way", TOPIC_ID)],
                5,
                "m-1",
                "i-1",
                may_add=True,
            ),
            api.TxnOffsetCommitResponse(
                [
                    api.OffsetCommitResult(
                        "flights", 0, ErrorCode.OFFSET_METADATA_TOO_LARGE, TOPIC_ID
                    )
                ],
                7,
            ),
        ),
        ApiKey.DESCRIBE_TRANSACTIONS: (
            api.DescribeTransactionsRequest(["tx"]),
            api.DescribeTransactionsResponse(
                [
                    api.TransactionDescription(
                        "tx",
                        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
                        "Ongoing",
                        60000,
                        1372896000000,
                        1000,
                        2,
                        [("flights", 0)],
                    )
                ],
                7,
            ),
        ),
        ApiKey.LIST_TRANSACTIONS: (
            api.ListTransactionsRequest(["Ongoing"], [1000], 5000, "t.*"),
            api.ListTransactionsResponse(
                [api.ListedTransaction("tx", 1000, "Ongoing")],
                ["Odd"],
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                7,
            ),
        ),
    }


def cluster_samples() -> dict[ApiKey, tuple[Any, Any]]:
    return {
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (
            api.OffsetForLeaderEpochRequest(
                [api.OffsetForLeaderEpochPartition("flights", 0, 3, 4)], replica_id=2
            ),
            api.OffsetForLeaderEpochResponse(
                [
                    api.OffsetForLeaderEpochResult(
                        "flights", 0, ErrorCode.FENCED_LEADER_EPOCH, 3, 2**40
                    )
                ],
                7,
            ),
        ),
        ApiKey.DESCRIBE_CLUSTER: (
            api.DescribeClusterRequest(
                include_authorized_operations=True, endpoint_type=2, include_fenced_brokers=True
            ),
            api.DescribeClusterResponse(
                "cluster",
                1,
                [api.BrokerMetadata(1, "localhost", 9092, "rack-a")],
                ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                "a broker",
                2,
                328,
                7,
            ),
        ),
    }

from seglog.protocol.api import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    OffsetForLeaderEpochPartition,
    OffsetForLeaderEpochRequest,
)
from seglog.protocol.errors import ErrorCode
from support.broker_parts import CONTEXT, BrokerParts, batch_of


async def test_cluster_is_this_broker_as_the_listener_reaches_it(broker: BrokerParts) -> None:
    response = await broker.ask(DescribeClusterRequest())
    (only,) = response.brokers
    assert (only.host, only.port) == (CONTEXT.host, CONTEXT.port)
    assert response.cluster_id == broker.services.cluster_id
    response = await broker.ask(DescribeClusterRequest(endpoint_type=2))
    assert response.error == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    response = await broker.ask(DescribeClusterRequest(include_authorized_operations=True))
    assert response.authorized_operations == 8096


async def test_pages_of_topics_meet_without_gap_or_overlap(broker: BrokerParts) -> None:
    for name, count in (("b", 5), ("a", 3), ("c", 1)):
        await broker.create_topic(name, count)
    found: list[tuple[str | None, int]] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        request = DescribeTopicPartitionsRequest([], 2, cursor)
        response = await broker.ask(request)
        page = [
            (topic.name, part.partition) for topic in response.topics for part in topic.partitions
        ]
        assert 0 < len(page) <= 2
        found += page
        cursor, pages = response.next_cursor, pages + 1
    expected = [("a", n) for n in range(3)] + [("b", n) for n in range(5)] + [("c", 0)]
    assert found == expected
    response = await broker.ask(DescribeTopicPartitionsRequest(["ghost", "a"]))
    assert [(topic.name, topic.error) for topic in response.topics] == [("a", 0), ("ghost", 3)]
    assert [topic.authorized_operations for topic in response.topics] == [3576, -(2**31)]


async def test_a_page_leads_to_itself(broker: BrokerParts) -> None:
    await broker.create_topic("a", 3)
    response = await broker.ask(DescribeTopicPartitionsRequest(["a"], 2, ("a", -1)))
    assert [topic.error for topic in response.topics] == [ErrorCode.INVALID_REQUEST]
    assert response.next_cursor is None


async def test_end_of_an_epoch_is_found(broker: BrokerParts) -> None:
    """EPOCH-4: that of the leader where the log ends, also of a log without a batch."""
    await broker.create_topic("t")
    for epoch, expected in ((0, (0, 0)), (1, (-1, -1)), (-1, (-1, -1))):
        entry = OffsetForLeaderEpochPartition("t", 0, epoch)
        (result,) = (await broker.ask(OffsetForLeaderEpochRequest([entry]))).partitions
        assert (result.leader_epoch, result.end_offset) == expected
    await broker.produce([("t", 0, batch_of(b"a", b"b"))])
    broker.partition("t", 0).leader_epoch = 4
    await broker.produce([("t", 0, batch_of(b"c"))])
    for epoch, expected in ((0, (0, 2)), (2, (0, 2)), (4, (4, 3)), (5, (-1, -1))):
        entry = OffsetForLeaderEpochPartition("t", 0, epoch)
        (result,) = (await broker.ask(OffsetForLeaderEpochRequest([entry]))).partitions
        assert (result.error, (result.leader_epoch, result.end_offset)) == (0, expected)
    entries = [
        OffsetForLeaderEpochPartition("ghost", 0, 0),
        OffsetForLeaderEpochPartition("t", 0, 0, current_leader_epoch=3),
    ]
    response = await broker.ask(OffsetForLeaderEpochRequest(entries))
    assert [result.error for result in response.partitions] == [3, 74]

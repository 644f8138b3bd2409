"""Commits, lookups, deletion and expiry of offsets: C045, C057, C060."""

from pathlib import Path

import pytest

from seglog.broker.coordinator.coordination import OFFSET_EXPIRY_TASK
from seglog.broker.coordinator.groups.store import OFFSETS_TOPIC
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.protocol.api import (
    DeleteGroupsRequest,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchPartition,
    OffsetFetchRequest,
)
from seglog.protocol.errors import ErrorCode
from support.failing_disk import FailingDisk
from support.group_broker import GroupBroker, join_request, subscription

P0, P1 = ("t", 0), ("t", 1)
NONE = ErrorCode.NONE


async def test_an_offset_is_read_back_with_something_missing(broker: GroupBroker) -> None:
    await broker.commit({P0: 2**63 - 1}, leader_epoch=3, metadata="ü" * 2048)
    await broker.commit({P1: 0})
    for _ in range(2):
        asked = [OffsetFetchPartition("t", number) for number in (0, 1, 7)]
        response = await broker.ask(OffsetFetchRequest([OffsetFetchGroup("g", asked)]))
        first, second, unknown = response.groups[0].partitions
        assert (first.offset, first.leader_epoch, first.metadata) == (2**63 - 1, 3, "ü" * 2048)
        assert (second.offset, second.leader_epoch, second.metadata) == (0, -1, "")
        assert (unknown.offset, unknown.error) == (-1, NONE)
        broker = await broker.restarted(clean=False)
    await broker.stop()


async def test_what_must_not_be_stored_is_stored(broker: GroupBroker) -> None:
    """C060: each partition is judged alone; beyond the end is stored as it is."""
    commits = [
        OffsetCommitPartition("t", 0, -1),
        OffsetCommitPartition("t", 1, 11),
        OffsetCommitPartition("t", 7, 3),
        OffsetCommitPartition("t", -1, 3),
        OffsetCommitPartition("ghost", 0, 3),
        OffsetCommitPartition("t", 0, 5, metadata="m" * 4097),
        OffsetCommitPartition("t", 0, 5, metadata="ü" * 2049),
    ]
    response = await broker.ask(OffsetCommitRequest("g", commits))
    assert [result.error for result in response.partitions] == [
        ErrorCode.OFFSET_OUT_OF_RANGE,
        NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ]
    assert await broker.committed() == {P1: 11}
    broker = await broker.restarted()
    assert await broker.committed([P0, P1, ("ghost", 0)]) == {P0: -1, P1: 11, ("ghost", 0): -1}
    assert broker.parts.services.catalog.get("ghost") is None, "C045"
    await broker.stop()


async def test_oversized_metadata_takes_the_rest_of_the_commit_with_it(
    broker: GroupBroker,
) -> None:
    """C060: 12 for p0, p1 stored, and fetched as stable."""
    commits = [
        OffsetCommitPartition("t", 0, 5, metadata="m" * 4097),
        OffsetCommitPartition("t", 1, 6, metadata="m" * 4096),
    ]
    response = await broker.ask(OffsetCommitRequest("g", commits))
    assert [int(result.error) for result in response.partitions] == [12, 0]
    fetch = OffsetFetchRequest([OffsetFetchGroup("g")], require_stable=True)
    (group,) = (await broker.ask(fetch)).groups
    assert [(each.partition, each.offset) for each in group.partitions] == [(1, 6)]


async def test_a_topic_is_named_by_its_id_only(broker: GroupBroker) -> None:
    """OffsetCommit and OffsetFetch from version 10 on."""
    topic = broker.parts.services.catalog.get("t")
    assert topic is not None
    nobody = bytes(15) + b"\x01"
    commits = [
        OffsetCommitPartition("", 0, 5, topic_id=topic.topic_id),
        OffsetCommitPartition("", 0, 5, topic_id=nobody),
    ]
    response = await broker.ask(OffsetCommitRequest("g", commits))
    assert [result.error for result in response.partitions] == [NONE, ErrorCode.UNKNOWN_TOPIC_ID]
    asked = [
        OffsetFetchPartition("", 0, topic.topic_id),
        OffsetFetchPartition("", 0, nobody),
    ]
    response = await broker.ask(
        OffsetFetchRequest([OffsetFetchGroup("g", asked), OffsetFetchGroup("g")])
    )
    known, unknown = response.groups[0].partitions
    assert (known.offset, known.topic_id) == (5, topic.topic_id)
    assert unknown.error is ErrorCode.UNKNOWN_TOPIC_ID
    (every,) = response.groups[1].partitions
    assert (every.topic, every.topic_id, every.offset) == ("t", topic.topic_id, 5)


async def test_groups_are_mixed_up(broker: GroupBroker) -> None:
    """Several groups in one request, unknown ones among them, in its order."""
    await broker.commit({P0: 1}, group="a")
    await broker.commit({P0: 2, P1: 3}, group="b")
    request = OffsetFetchRequest([OffsetFetchGroup(name) for name in ("b", "nobody", "a")])
    groups = (await broker.ask(request)).groups
    assert [(group.group_id, len(group.partitions)) for group in groups] == [
        ("b", 2),
        ("nobody", 0),
        ("a", 1),
    ]


async def test_offsets_without_a_group_id_are_refused(broker: GroupBroker) -> None:
    """Old clients keep offsets under the empty name."""
    assert await broker.commit({P0: 1}, group="") == [NONE]
    assert await broker.committed(group="") == {P0: 1}


async def test_a_stranger_moves_the_offsets_of_a_live_group(broker: GroupBroker) -> None:
    joined = await broker.only_member()
    assert await broker.commit({P0: 5}) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert await broker.commit({P0: 5}, member=joined) == [NONE]
    joined.generation_id += 1
    assert await broker.commit({P0: 6}, member=joined) == [ErrorCode.ILLEGAL_GENERATION]
    joined.member_id = "other"
    assert await broker.commit({P0: 6}, member=joined) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert await broker.commit({P0: 6}, "unknown", joined) == [ErrorCode.ILLEGAL_GENERATION]
    assert await broker.committed() == {P0: 5}


async def test_a_late_commit_of_a_removed_member_is_stored(broker: GroupBroker) -> None:
    """C059: M3 is told clearly, and has to rejoin."""
    joined = await broker.only_member(session_ms=6000)
    await broker.advance(6000)
    assert await broker.commit({P0: 9}, member=joined) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert await broker.committed() == {}


async def test_work_of_the_old_generation_is_lost_in_a_rebalance(broker: GroupBroker) -> None:
    """Members commit before they rejoin; not between the phases."""
    first = await broker.only_member()
    second_id, second = await broker.begin_join()
    assert await broker.commit({P0: 7}, member=first) == [NONE]
    joined = await broker.ask(join_request(first.member_id))
    assert await broker.commit({P0: 8}, member=joined) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert (await second).member_id == second_id
    assert await broker.committed() == {P0: 7}


async def test_a_commit_is_no_sign_of_life(broker: GroupBroker) -> None:
    joined = await broker.only_member(session_ms=6000)
    for _ in range(4):
        await broker.advance(5000)
        assert await broker.commit({P0: 1}, member=joined) == [NONE]


async def test_durable_commits_are_answered_before_they_are_on_disk(tmp_path: Path) -> None:
    """flush.messages=1: what is acknowledged is as durable as a record, deletions as well."""
    broker = await GroupBroker.start(tmp_path, {"log.flush.interval.messages": "1"})
    await broker.parts.create_topic("t", 1)
    joined = await broker.only_member()
    assert await broker.commit({P0: 5}, member=joined) == [NONE]
    partition = broker.parts.partition(
        "__consumer_offsets", broker.coordination._store.partition_of("g")
    )
    offsets = partition.log.offsets
    assert offsets.recovery_point == offsets.log_end == 2
    await broker.leave(joined.member_id)
    assert await delete(broker, P0) == ["NONE", "NONE"]
    assert offsets.recovery_point == offsets.log_end
    end = offsets.log_end
    await broker.commit({P0: 5})
    (deleted,) = (await broker.ask(DeleteGroupsRequest(["g"]))).groups
    assert deleted.error == NONE
    assert offsets.recovery_point == offsets.log_end > end + 1
    await broker.stop()


async def test_a_commit_of_many_partitions_does_not_fit_into_a_batch(tmp_path: Path) -> None:
    broker = await GroupBroker.start(tmp_path, {"message.max.bytes": "5000"})
    await broker.parts.create_topic("t", 300)
    offsets = {("t", number): number for number in range(300)}
    assert set(await broker.commit(offsets)) == {NONE}
    await broker.parts.delete_topic("t")
    assert await broker.committed() == {}
    await broker.stop()


async def test_one_offset_is_too_large_for_any_batch(tmp_path: Path) -> None:
    """It is refused, the others are stored."""
    broker = await GroupBroker.start(tmp_path, {"message.max.bytes": "1000"})
    await broker.parts.create_topic("t", 2)
    commits = [
        OffsetCommitPartition("t", 0, 1),
        OffsetCommitPartition("t", 1, 1, metadata="m" * 2000),
    ]
    response = await broker.ask(OffsetCommitRequest("g", commits))
    assert [result.error for result in response.partitions] == [
        NONE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ]
    assert await broker.committed() == {P0: 1}
    await broker.stop()


# ---- deletion


async def delete(broker: GroupBroker, *places: tuple[str, int], group: str = "g") -> list[str]:
    response = await broker.ask(OffsetDeleteRequest(group, list(places)))
    return [response.error.name, *(result.error.name for result in response.partitions)]


async def test_an_offset_that_is_in_use_is_deleted(broker: GroupBroker) -> None:
    await broker.parts.create_topic("old", 1)
    await broker.commit({P0: 5, ("old", 0): 6})
    joined = await broker.only_member()
    assert await delete(broker, P0, ("old", 0), ("ghost", 0), P1) == [
        "NONE",
        "GROUP_SUBSCRIBED_TO_TOPIC",
        "NONE",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "GROUP_SUBSCRIBED_TO_TOPIC",
    ]
    assert await broker.committed() == {P0: 5}
    await broker.leave(joined.member_id)
    assert await delete(broker, P0) == ["NONE", "NONE"]
    assert await delete(broker, P0, group="unknown") == ["GROUP_ID_NOT_FOUND"]
    broker = await broker.restarted(clean=False)
    assert await broker.committed() == {}
    await broker.stop()


async def test_a_deletion_that_was_not_stored_is_acknowledged(tmp_path: Path) -> None:
    """Where the disk is full offsets stay, and their deletion is refused with a passing error."""
    disk = FailingDisk()
    broker = await GroupBroker.start(tmp_path, file_system=OsFileSystem(disk))
    await broker.parts.create_topic("t", 2)
    await broker.commit({P0: 5})
    disk.full.add(OFFSETS_TOPIC)
    assert await delete(broker, P0) == ["COORDINATOR_NOT_AVAILABLE"]
    assert await broker.committed() == {P0: 5}
    disk.full.clear()
    assert await delete(broker, P0) == ["NONE", "NONE"]
    broker = await broker.restarted(clean=False)
    assert await broker.committed() == {}
    await broker.stop()


async def test_offsets_of_a_group_that_nobody_understands_are_deleted(broker: GroupBroker) -> None:
    await broker.commit({P0: 5})
    await broker.only_member(metadata=b"\x00", protocols=[("range", b"\x00")])
    assert await delete(broker, P0) == ["NONE", "GROUP_SUBSCRIBED_TO_TOPIC"]
    await broker.commit({P0: 5}, group="connect")
    await broker.only_member("connect", protocol_type="connect")
    assert await delete(broker, P0, group="connect") == ["NON_EMPTY_GROUP"]


async def test_a_new_topic_inherits_the_offsets_of_a_deleted_one(broker: GroupBroker) -> None:
    await broker.parts.create_topic("other", 1)
    await broker.commit({P0: 5, P1: 6, ("other", 0): 7})
    await broker.parts.delete_topic("t")
    assert await broker.committed() == {("other", 0): 7}
    await broker.parts.create_topic("t", 2)
    broker = await broker.restarted(clean=False)
    assert await broker.committed([P0, ("other", 0)]) == {P0: -1, ("other", 0): 7}
    await broker.stop()


async def test_a_kill_between_topic_and_tombstones_keeps_the_offsets(broker: GroupBroker) -> None:
    """What the catalog no longer has is dropped at the start, and stays so."""
    await broker.commit({P0: 5})
    broker.parts.services.topics.deletion_listeners.clear()
    await broker.parts.delete_topic("t")
    broker = await broker.restarted(clean=False)
    assert await broker.committed() == {}
    await broker.parts.create_topic("t", 2)
    broker = await broker.restarted(clean=False)
    assert await broker.committed() == {}
    await broker.stop()


# ---- expiry

EXPIRY = {"offsets.retention.ms": "2000", "offsets.retention.check.interval.ms": "500"}


@pytest.fixture
async def expiring(tmp_path: Path) -> GroupBroker:
    broker = await GroupBroker.start(tmp_path / "expiring", EXPIRY)
    await broker.parts.create_topic("t", 2)
    return broker


async def test_a_quiet_partition_of_a_live_group_loses_its_offset(expiring: GroupBroker) -> None:
    """C057, with its numbers: 8 s with a member, then until 2 s after the group became empty."""
    broker = expiring
    joined = await broker.only_member()
    await broker.commit({P0: 5}, member=joined)
    for step in range(40):
        await broker.commit({P1: step}, member=joined)
        await broker.advance(200)
    assert await broker.committed() == {P0: 5, P1: 39}
    broker = await broker.restarted(EXPIRY)
    assert await broker.heartbeat(joined) is NONE
    assert await broker.committed() == {P0: 5, P1: 39}
    await broker.leave(joined.member_id)
    await broker.advance(1000)
    broker = await broker.restarted(EXPIRY, clean=False)
    assert await broker.committed() == {P0: 5, P1: 39}
    await broker.advance(4000)
    assert await broker.committed() == {}
    assert (await broker.describe()).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert broker.coordination.groups.counters.expired_offsets == 2
    broker = await broker.restarted(EXPIRY)
    assert (await broker.describe()).error is ErrorCode.GROUP_ID_NOT_FOUND
    await broker.stop()


async def test_a_commit_outside_of_groups_never_expires_or_too_soon(expiring: GroupBroker) -> None:
    """C057: it counts from the last commit of each partition."""
    broker = expiring
    await broker.commit({P0: 5, P1: 5})
    await broker.advance(1500)
    await broker.commit({P1: 6})
    await broker.advance(1000)
    assert await broker.committed() == {P1: 6}
    await broker.advance(1500)
    assert await broker.committed() == {}
    assert not len(broker.coordination.groups)
    await broker.stop()


async def test_a_time_that_the_client_asked_for_is_ignored(expiring: GroupBroker) -> None:
    """Below version 5 of OffsetCommit; the largest one must not wrap into the past (C060)."""
    broker = expiring
    for place, retention_ms in ((P0, 5000), (P1, 2**63 - 1)):
        request = OffsetCommitRequest("g", [OffsetCommitPartition(*place, 5)])
        request.retention_time_ms = retention_ms
        assert (await broker.ask(request)).partitions[0].error is NONE
    await broker.advance(4500)
    broker = await broker.restarted(EXPIRY, clean=False)
    assert await broker.committed() == {P0: 5, P1: 5}
    await broker.advance(1000)
    assert await broker.committed() == {P1: 5}
    await broker.stop()


async def test_an_empty_group_is_forgotten_while_somebody_joins(expiring: GroupBroker) -> None:
    broker = expiring
    await broker.commit({P0: 5})
    member_id = await broker.new_member_id(session_ms=10_000)
    await broker.advance(5000)
    assert await broker.committed() == {}
    joined = await broker.ask(join_request(member_id, metadata=subscription("t")))
    assert joined.error is NONE
    await broker.stop()


async def test_the_default_is_not_a_week(broker: GroupBroker) -> None:
    await broker.commit({P0: 5})
    (task,) = broker.scheduler.tasks(OFFSET_EXPIRY_TASK)
    assert task.period_ms == 600_000
    broker.clock.advance(10_080 * 60_000 - 1)
    await broker.coordination._expiry.expire()
    assert await broker.committed() == {P0: 5}
    broker.clock.advance(1)
    await broker.coordination._expiry.expire()
    assert await broker.committed() == {}

"""Looking after groups, against a real broker."""

from datetime import UTC, datetime

import pytest

from seglog.clients import (
    Admin,
    AsyncAdmin,
    ConfigurationError,
    Consumer,
    GroupNotEmptyError,
    GroupNotFoundError,
    OffsetAndMetadata,
    OffsetCommitError,
    Producer,
)
from seglog.clients.testing import running_broker
from support.eventually import eventually

BASE_MS = 1_700_000_000_000
KEEP = {"retention.ms": -1}


@pytest.fixture(scope="module")
def broker():
    with running_broker() as running:
        yield running


@pytest.fixture
def admin(broker):
    with Admin(broker.address) as client:
        yield client


@pytest.fixture(scope="module")
def topic(broker):
    """Three partitions with 100 records each, one a second."""
    with Admin(broker.address) as admin, Producer(broker.address) as producer:
        admin.create_topic("topic", partitions=3, configs=KEEP)
        for number in range(3):
            items = [(None, b"%d" % n, BASE_MS + 1000 * n) for n in range(100)]
            producer.send_many("topic", items, partition=number)
    return "topic"


def member(broker, topic, group, **options):
    return Consumer(
        broker.address, topic, group=group, heartbeat_interval_ms=100, auto_commit=False, **options
    )


def settle(*consumers):
    eventually(
        lambda: [(each.read(timeout=0.05), len(each.assignment))[1] for each in consumers],
        until=lambda counts: sum(counts) == 3 and all(counts),
    )


def test_groups_are_listed_described_and_deleted(broker, admin, topic):
    admin.alter_group_offsets("empty", {(topic, 0): 3})
    with member(broker, topic, "live", client_id="who") as first:
        second = member(broker, topic, "live", group_instance_id="me")
        settle(first, second)
        listed = {group.group_id: group.state for group in admin.list_groups()}
        assert listed["empty"] == "Empty"
        assert listed["live"] == "Stable"
        assert [group.group_id for group in admin.list_groups(states=["Stable"])] == ["live"]
        info = admin.describe_groups(["live", "empty"])
        assert (info["empty"].state, info["empty"].members) == ("Empty", ())
        assert (info["live"].state, info["live"].assignor) == ("Stable", "range")
        members = {each.instance_id: each for each in info["live"].members}
        assert members[None].client_id == "who"
        assert members[None].topics == {topic}
        assert members[None].partitions == tuple(first.assignment)
        assert members["me"].partitions == tuple(second.assignment)
        with pytest.raises(GroupNotEmptyError, match="live"):
            admin.delete_groups(["live", "empty"])
        second.close()
    with pytest.raises(GroupNotFoundError):
        admin.describe_groups(["empty"])
    with pytest.raises(GroupNotFoundError, match="ghost"):
        admin.delete_groups(["ghost"])


def test_offsets_are_listed_set_and_forgotten(broker, admin, topic):
    p0, p1, p2 = [(topic, number) for number in range(3)]
    admin.alter_group_offsets("set", {p0: 5, p1: OffsetAndMetadata(6, "why")})
    assert admin.list_group_offsets("set") == {
        p0: OffsetAndMetadata(5),
        p1: OffsetAndMetadata(6, "why"),
    }
    assert admin.list_group_offsets("set", [p2]) == {p2: None}
    assert admin.list_group_offsets("ghost") == {}
    admin.delete_group_offsets("set", [p1])
    assert admin.list_group_offsets("set") == {p0: OffsetAndMetadata(5)}
    with pytest.raises(OffsetCommitError):
        admin.alter_group_offsets("set", {p0: 7, (topic, 9): 1})
    with Consumer(broker.address, [p0], group="set") as consumer:
        assert consumer.read(1, 5)[0].offset == 7
    with member(broker, topic, "set") as consumer:
        settle(consumer)
        with pytest.raises(GroupNotEmptyError, match="set"):
            admin.alter_group_offsets("set", {p0: 1})
        with pytest.raises(OffsetCommitError, match="GROUP_SUBSCRIBED_TO_TOPIC"):
            admin.delete_group_offsets("set", [p0])


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"to": "earliest"}, 10),
        ({"to": "latest"}, 100),
        ({"to": 42}, 42),
        ({"to": 5}, 10),
        ({"to": 1000}, 100),
        ({"to": datetime.fromtimestamp(BASE_MS / 1000 + 30, UTC)}, 30),
        ({"to": datetime.fromtimestamp(BASE_MS / 1000 + 500, UTC)}, 100),
        ({"to": "current"}, 50),
        ({"to": {("topic", 2): 33}}, 33),
        ({"to": {("topic", 2): 3}}, 10),
        ({"shift_by": -7}, 43),
        ({"shift_by": 7}, 57),
        ({"shift_by": -1000}, 10),
        ({"shift_by": 1000}, 100),
    ],
)
def test_offsets_are_reset_by_a_rule_and_stay_within_what_exists(admin, topic, rule, expected):
    place = (topic, 2)
    admin.delete_records({place: 10})
    admin.alter_group_offsets("reset", {place: 50})
    planned = admin.reset_group_offsets("reset", dry_run=True, **rule)
    assert planned == {place: (50, expected)}
    assert admin.list_group_offsets("reset")[place].offset == 50
    assert admin.reset_group_offsets("reset", [place], **rule) == planned
    assert admin.list_group_offsets("reset")[place].offset == expected


def test_whole_topics_are_reset_also_where_nothing_is_committed(broker, admin, topic):
    changes = admin.reset_group_offsets("whole", [topic], to=20)
    assert changes == {(topic, number): (None, 20) for number in range(3)}
    with pytest.raises(ConfigurationError, match="nothing is committed"):
        admin.reset_group_offsets("fresh", [topic], shift_by=1)
    for wrong in ({}, {"to": 1, "shift_by": 1}):
        with pytest.raises(ConfigurationError, match="either"):
            admin.reset_group_offsets("whole", **wrong)
    current = admin.reset_group_offsets("whole-new", [topic], to="current", dry_run=True)
    assert {change.after for change in current.values()} == {100}
    with pytest.raises(ConfigurationError, match=r"nothing says where to set topic-1"):
        admin.reset_group_offsets("whole", [(topic, 1)], to={(topic, 0): 3})
    with member(broker, topic, "whole") as consumer:
        settle(consumer)
        with pytest.raises(GroupNotEmptyError):
            admin.reset_group_offsets("whole", to="earliest")


def test_the_lag_of_a_group_is_told_by_partition(broker, admin, topic):
    p0, p1, p2 = [(topic, number) for number in range(3)]
    admin.alter_group_offsets("lag", {p0: 40, p1: 100})
    lags = admin.group_lag("lag")
    assert {place: each[:3] for place, each in lags.items()} == {
        p0: (40, 100, 60),
        p1: (100, 100, 0),
    }
    assert lags[p0].member is None
    admin.delete_records({p0: 90})
    assert admin.group_lag("lag")[p0][:3] == (40, 100, 10), "what is gone is not behind"
    with member(broker, topic, "lag", client_id="reader") as consumer:
        settle(consumer)
        lags = eventually(lambda: admin.group_lag("lag"), until=lambda found: len(found) == 3)
        assert lags[p2][:3] == (None, 100, None)
        assert {each.member.client_id for each in lags.values()} == {"reader"}
    with pytest.raises(GroupNotFoundError):
        admin.group_lag("ghost")


async def test_the_async_admin_does_the_same(broker, topic):
    async with AsyncAdmin(broker.address) as admin:
        await admin.alter_group_offsets("async", {(topic, 0): 1})
        assert "async" in {group.group_id for group in await admin.list_groups()}
        changes = await admin.reset_group_offsets("async", to="latest")
        assert changes == {(topic, 0): (1, 100)}
        assert (await admin.group_lag("async"))[topic, 0].lag == 0
        await admin.delete_groups(["async"])
        with pytest.raises(GroupNotFoundError):
            await admin.describe_groups(["async"])

"""Assignors, on the examples of Kafka's documentation; the rest is in tests/property."""

from seglog.clients.group.assignors import ASSIGNORS, MemberSubscription
from seglog.protocol.types import TopicPartition


def assign(name, counts, *members):
    subscriptions = [
        MemberSubscription(member_id, frozenset(topics)) for member_id, topics in members
    ]
    return {
        member_id: [f"{topic}{number}" for topic, number in partitions]
        for member_id, partitions in ASSIGNORS[name].assign(subscriptions, counts).items()
    }


def test_range_divides_each_topic_by_itself():
    both = ("t", "u")
    assert assign("range", {"t": 3, "u": 3}, ("c0", both), ("c1", both)) == {
        "c0": ["t0", "t1", "u0", "u1"],
        "c1": ["t2", "u2"],
    }


def test_round_robin_deals_all_topics_together():
    both = ("t", "u")
    assert assign("roundrobin", {"t": 3, "u": 3}, ("c0", both), ("c1", both)) == {
        "c0": ["t0", "t2", "u1"],
        "c1": ["t1", "u0", "u2"],
    }
    counts = {"t": 1, "u": 2, "v": 3}
    members = ("c0", "t"), ("c1", "tu"), ("c2", "tuv")
    assert assign("roundrobin", counts, *members) == {
        "c0": ["t0"],
        "c1": ["u0"],
        "c2": ["u1", "v0", "v1", "v2"],
    }


def test_sticky_is_more_even_where_wishes_differ():
    counts = {"t": 1, "u": 2, "v": 3}
    members = ("c0", "t"), ("c1", "tu"), ("c2", "tuv")
    assert assign("sticky", counts, *members) == {
        "c0": ["t0"],
        "c1": ["u0", "u1"],
        "c2": ["v0", "v1", "v2"],
    }


def test_static_members_keep_their_places_under_new_ids():
    def group(*ids):
        return [MemberSubscription(name, frozenset("t"), f"i{n}") for n, name in enumerate(ids)]

    before = ASSIGNORS["range"].assign(group("x", "a"), {"t": 2})
    after = ASSIGNORS["range"].assign(group("b", "y"), {"t": 2})
    assert before == {"x": [TopicPartition("t", 0)], "a": [TopicPartition("t", 1)]}
    assert after == {"b": [TopicPartition("t", 0)], "y": [TopicPartition("t", 1)]}


def test_topics_that_do_not_exist_are_left_out():
    for name in ASSIGNORS:
        assert assign(name, {"t": 1}, ("c0", ("t", "ghost"))) == {"c0": ["t0"]}
        assert assign(name, {}, ("c0", ("ghost",))) == {"c0": []}


def test_a_large_group_is_divided_in_a_moment():
    members = [MemberSubscription(f"m{n:04}", frozenset("t")) for n in range(500)]
    for assignor in ASSIGNORS.values():
        assignment = assignor.assign(members, {"t": 10_000})
        assert {len(partitions) for partitions in assignment.values()} == {20}

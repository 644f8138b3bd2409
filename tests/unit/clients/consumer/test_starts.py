"""Where reading begins."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest

from seglog.clients import ConfigurationError, Last, Offset, Timestamp
from seglog.clients.consumer.starts import End, Nowhere, parse_subscription, place_of
from seglog.clients.offsets import timestamp_of, wire_timestamp


@pytest.mark.parametrize(
    ("topics", "names"),
    [("a", ("a",)), (["a", "b", "a"], ("a", "b")), ((), ()), ({"a"}, ("a",))],
)
def test_topics_are_read_from_the_common_start(topics, names):
    subscription = parse_subscription(topics, "earliest")
    assert subscription.topics == names
    assert subscription.place is End.EARLIEST
    assert not subscription.partitions


def test_partitions_have_the_common_start_or_their_own():
    chosen = parse_subscription([("a", 0), ("a", 1)], 1234)
    assert chosen.partitions == {("a", 0): Timestamp(1234), ("a", 1): Timestamp(1234)}
    own = parse_subscription({("a", 0): 5, ("a", 1): "latest", ("b", 0): Last(3)}, "earliest")
    assert own.partitions == {("a", 0): Offset(5), ("a", 1): End.LATEST, ("b", 0): Last(3)}


def test_an_integer_is_a_time_for_all_and_an_offset_for_one():
    assert place_of(7, integer_is_offset=False) == Timestamp(7)
    assert place_of(7, integer_is_offset=True) == Offset(7)


@pytest.mark.parametrize(
    "start",
    ["first", None, -1, Offset(-1), Last(-1), Timestamp(-5), True, 1.5, datetime(2024, 1, 1)],  # noqa: DTZ001 - that is the fault
)
def test_a_start_that_means_nothing_is_refused(start):
    with pytest.raises(ConfigurationError):
        place_of(start, integer_is_offset=True)


@pytest.mark.parametrize("topics", [["a", ("a", 0)], [5], [("a",)], [("a", -1)], {"a": 1}])
def test_topics_that_are_none_are_refused(topics):
    with pytest.raises(ConfigurationError):
        parse_subscription(topics, "latest")


def test_moments_are_rounded_so_that_nothing_earlier_is_found():
    moment = datetime(2013, 7, 4, tzinfo=UTC)
    assert timestamp_of(moment) == 1_372_896_000_000
    assert timestamp_of(moment + timedelta(microseconds=1)) == 1_372_896_000_001
    summer_time = timezone(timedelta(hours=2))
    assert timestamp_of(datetime(2013, 7, 4, 2, tzinfo=summer_time)) == 1_372_896_000_000


def test_questions_about_time_have_their_wire_form():
    assert [wire_timestamp(spec) for spec in ("earliest", "latest", "max_timestamp", 9)] == [
        -2,
        -1,
        -3,
        9,
    ]
    for wrong in ("newest", -1, 1.5, None):
        with pytest.raises(ConfigurationError):
            wire_timestamp(wrong)


def test_in_a_group_what_is_not_said_is_left_to_the_committed_offsets():
    pairs = parse_subscription([("t", 0)], None, group="g", offset_reset="latest")
    assert (pairs.partitions, pairs.place) == ({("t", 0): None}, End.LATEST)
    mapping = parse_subscription({("t", 0): 7}, None, group="g", offset_reset="latest")
    assert mapping.partitions == {("t", 0): Offset(7)}
    alone = parse_subscription([("t", 0)], None)
    assert alone.partitions == {("t", 0): End.LATEST}


def test_where_a_group_without_offsets_begins():
    places = [
        parse_subscription("t", start, group="g", offset_reset=reset).place
        for start, reset in ((None, "earliest"), (None, "error"), (Offset(3), "error"))
    ]
    assert places[0] is End.EARLIEST
    assert isinstance(places[1], Nowhere)
    assert places[1].group == "g"
    assert places[2] == Offset(3)


def test_a_pattern_needs_a_group():
    pattern = re.compile("t.*")
    found = parse_subscription(pattern, None, group="g", offset_reset="latest")
    assert (found.pattern, found.topics, found.partitions) == (pattern, (), {})
    with pytest.raises(ConfigurationError, match="only a group"):
        parse_subscription(pattern, None)

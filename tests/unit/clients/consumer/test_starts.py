"""Where reading begins."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from seglog.clients import ConfigurationError, Last, Offset, Timestamp
from seglog.clients.consumer.starts import End, parse_subscription, place_of
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

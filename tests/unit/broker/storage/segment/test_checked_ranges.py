"""Ranges that were seen: what is said to be seen was, and what grows stays one range."""

from hypothesis import given
from hypothesis import strategies as st

from seglog.broker.storage.segment.checked_ranges import CheckedRanges

POSITIONS = st.integers(0, 60)
RANGES = st.tuples(POSITIONS, st.integers(1, 12)).map(lambda each: (each[0], sum(each)))


@given(st.lists(RANGES | POSITIONS, max_size=100))
def test_nothing_is_said_to_be_seen_that_was_not(steps: list[tuple[int, int] | int]) -> None:
    """A number in the steps is a cut there; with few ranges none is forgotten either."""
    ranges, seen = CheckedRanges(), set[int]()
    for step in steps:
        if isinstance(step, int):
            ranges.cut(step)
            seen = {each for each in seen if each < step}
        else:
            ranges.add(*step)
            seen.update(range(*step))
        for position in range(80):
            end = ranges.end_of(position)
            assert end >= position
            assert seen.issuperset(range(position, end))
            assert position not in seen or end > position


def test_appends_are_one_range_whatever_is_read_before() -> None:
    ranges = CheckedRanges()
    for start in range(0, 100_000, 1000):
        ranges.add(start, start + 10)
    for end in range(200_000, 200_500):
        ranges.add(end, end + 1)
    assert ranges.end_of(200_000) == 200_500
    assert ranges.end_of(99_000) == 99_010
    assert ranges.end_of(0) == 0
    ranges.clear()
    assert ranges.end_of(200_000) == 200_000

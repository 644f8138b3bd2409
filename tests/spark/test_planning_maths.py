"""Pure decisions of the planner: limits, begins, splits, and offsets as text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.clients.spark.batch_begins import find_begin
from seglog.clients.spark.offset_maps import from_json, to_json
from seglog.clients.spark.progress import offsets_behind_latest
from seglog.clients.spark.rate_limits import limited_ends, offsets_for_bytes
from seglog.clients.spark.source_options import read_source_options
from seglog.clients.spark.splits import LARGE_RANGE_RECORDS, OffsetRange, make_splits
from seglog.protocol.types import TopicPartition

T0 = TopicPartition("t", 0)

counts = st.dictionaries(
    st.integers(0, 20).map(lambda number: TopicPartition("t", number)),
    st.integers(0, 2000),
    max_size=12,
)


@given(counts, st.integers(1, 3000))
def test_a_limit_is_broken_or_starves_a_partition(
    available: dict[TopicPartition, int], limit: int
) -> None:
    """C068: at most max(limit, partitions with records), and one offset for each of those."""
    start = dict.fromkeys(available, 7)
    end = {partition: 7 + count for partition, count in available.items()}
    found = limited_ends(start, end, limit)
    taken = {partition: found[partition] - 7 for partition in available}
    filled = [partition for partition, count in available.items() if count]
    assert sum(taken.values()) == min(sum(available.values()), max(limit, len(filled)))
    assert all(1 <= taken[partition] <= available[partition] for partition in filled)
    assert set(found) == set(available)


@pytest.mark.parametrize("limit", [1, 5, 9, 10, 11])
def test_each_partition_with_one_record_gets_it_below_any_limit(limit: int) -> None:
    """P2: ten partitions of one record each, beside an empty one."""
    start = {TopicPartition("t", number): 0 for number in range(11)}
    end = {partition: int(partition.partition < 10) for partition in start}
    assert limited_ends(start, end, limit) == end


@pytest.mark.parametrize("limit", [1, 5, 100])
def test_small_partitions_are_read_after_the_large_one(limit: int) -> None:
    """C068: ten partitions, one with 1000 records, nine with 10."""
    end = {TopicPartition("t", number): 1000 if number == 0 else 10 for number in range(10)}
    position = dict.fromkeys(end, 0)
    small_done = large_done = None
    for batch in range(2000):
        if position == end:
            break
        moved = limited_ends(position, end, limit)
        assert sum(moved.values()) - sum(position.values()) <= max(limit, 10)
        position = moved
        if small_done is None and all(position[each] == 10 for each in end if each != T0):
            small_done = batch
        if large_done is None and position[T0] == 1000:
            large_done = batch
    assert small_done is not None
    assert large_done is not None
    assert small_done < large_done


def test_a_limit_in_bytes_stops_a_query_whose_records_are_larger() -> None:
    assert offsets_for_bytes({T0: 0}, {T0: 100}, {T0: 1000.0}, 1) == 1
    assert offsets_for_bytes({T0: 0}, {T0: 100}, {T0: 10.0}, 500) == 50
    assert offsets_for_bytes({T0: 0}, {T0: 100}, {}, 500) == 100


def test_equal_offsets_are_written_unequally() -> None:
    """Spark compares text: another order of keys would run empty batches for ever."""
    partitions = [TopicPartition("b", 10), TopicPartition("b", 9), TopicPartition("a", 0)]
    one = to_json(dict.fromkeys(partitions, 1), init={}, first=True)
    other = to_json(dict.fromkeys(reversed(partitions), 1), first=True, init={})
    assert json.dumps(one) == json.dumps(other)
    assert json.dumps(one) == (
        '{"@first": true, "@init": {}, "a": {"0": 1}, "b": {"9": 1, "10": 1}}'
    )
    assert from_json(one) == dict.fromkeys(partitions, 1)


@pytest.mark.parametrize(
    ("written", "is_same", "first", "end", "begin", "word"),
    [
        (5, True, 0, 9, 5, None),
        (5, None, 5, 9, 5, None),
        (5, True, 7, 9, 7, "offsets 5 to 6"),
        (5, True, 12, 9, 9, "offsets 5 to 11"),
        (5, True, 7, 5, 5, None),
        (None, None, 0, 9, 0, None),
        (None, None, 3, 9, 3, "begins at offset 3"),
        (50, None, 0, 20, 0, "created again"),
        (50, False, 0, 90, 0, "created again"),
        (50, True, 0, 20, 20, "lost its end"),
    ],
)
def test_a_loss_is_not_seen_or_one_is_made_up(
    written: int | None, is_same: bool | None, first: int, end: int, begin: int, word: str | None
) -> None:
    found = find_begin(T0, written, is_same, first, end)
    assert found.offset == begin
    assert (found.loss is None) == (word is None)
    assert word is None or word in (found.loss or "")


def splits(counts: list[int], **options: int) -> list[list[tuple[int, int, int]]]:
    given = {"bootstrap.servers": "localhost:1", "subscribe": "t"}
    parsed = read_source_options(
        given | {name: str(value) for name, value in options.items()}, streaming=False
    )
    ranges = [
        OffsetRange(TopicPartition("t", number), 0, count, b"")
        for number, count in enumerate(counts)
    ]
    return [
        [(each.partition.partition, each.start, each.end) for each in split.ranges]
        for split in make_splits(ranges, parsed)
    ]


def test_small_ranges_cost_a_task_each() -> None:
    assert len(splits([100] * 8)) == 1
    assert len(splits([100] * 8, coalesceRecords=0)) == 8
    assert splits([0, 0]) == []


def test_a_large_range_is_one_task() -> None:
    pieces = splits([5 * LARGE_RANGE_RECORDS])
    assert len(pieces) == 5
    assert splits([10], minPartitions=3) == [[(0, 0, 3)], [(0, 3, 6)], [(0, 6, 10)]]
    assert len(splits([10, 10], maxRecordsPerPartition=4)) == 6
    assert len(splits([1], minPartitions=5)) == 1


@given(st.lists(st.integers(0, 500), max_size=6), st.integers(1, 40))
def test_splits_overlap_or_leave_something_out(counts: list[int], pieces: int) -> None:
    for found in (splits(counts, minPartitions=pieces), splits(counts, coalesceRecords=pieces)):
        covered = sorted(each for split in found for each in split)
        for number, count in enumerate(counts):
            mine = [(start, end) for partition, start, end in covered if partition == number]
            assert [start for start, _ in mine] == [0, *(end for _, end in mine)][: len(mine)]
            assert all(start < end for start, end in mine)
            assert (mine[-1][1] if mine else 0) == count
    assert len(splits(counts, minPartitions=pieces)) >= min(pieces, sum(counts))


def test_the_lag_of_a_report_is_wrong() -> None:
    report = {
        "sources": [
            {
                "endOffset": '{"@init": {}, "t": {"0": 5, "1": 7}}',
                "latestOffset": '{"t": {"0": 9, "1": 7, "2": 3}}',
            },
            {"endOffset": 12, "latestOffset": "null"},
        ]
    }
    lag = offsets_behind_latest(report)
    assert (lag.total, lag.largest) == (7, 4)
    assert lag.partitions[TopicPartition("t", 2)] == 3

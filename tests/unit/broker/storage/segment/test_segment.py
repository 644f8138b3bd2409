"""Appending to a segment, and reading from it by offset and by time."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from seglog.broker.storage.errors import DiskFullError, FileError, IndexOverflowError
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.segment.segment import LogSegment
from seglog.config.log_config import LogConfig
from seglog.protocol.compression import Codec
from seglog.protocol.records.batch import read_header
from support.faulty_file_system import FaultyFileSystem
from support.index_checks import entries_of
from support.segment_builder import (
    NOW_MS,
    SMALL,
    append,
    batch,
    file_contents,
    fill,
    headers_in,
    new_segment,
    reopened,
)


@pytest.fixture
def file_system() -> OsFileSystem:
    return OsFileSystem()


@pytest.fixture
def segment(file_system: OsFileSystem, tmp_path: Path) -> Iterator[LogSegment]:
    made = new_segment(file_system, tmp_path)
    yield made
    made.close()


def read(segment: LogSegment, offset: int, max_bytes: int, **options: bool | int) -> bytes | None:
    part = segment.read(offset, max_bytes, **options)  # type: ignore[arg-type]
    if part is None:
        return None
    content = part.read()
    part.release()
    return content


# ---- appending


def test_new_segment_knows_something(segment: LogSegment, tmp_path: Path) -> None:
    assert segment.next_offset() == 0
    assert segment.first_batch_timestamp is None
    assert segment.max_timestamp_ms == -1
    assert read(segment, 0, 100) is None
    assert segment.find_offset_by_timestamp(0, 0) is None
    assert abs(segment.largest_timestamp_ms - os.stat(segment.log.path).st_mtime * 1000) < 2
    assert sorted(file_contents(tmp_path)) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
    ]


def test_index_entries_come_at_other_batches(segment: LogSegment) -> None:
    """IDX-1, IDX-3, TIX-1: interval 200, batches of 95 bytes."""
    batches = fill(segment, 9)
    assert {len(one) for one in batches} == {95}
    assert entries_of(segment.offset_index) == [(3, 3 * 95), (6, 6 * 95)]
    assert entries_of(segment.time_index) == [(NOW_MS + 30, 3), (NOW_MS + 60, 6)]


def test_batches_of_one_append_are_indexed_as_one(
    segment: LogSegment, file_system: OsFileSystem, tmp_path: Path
) -> None:
    """IDX-2."""
    (tmp_path / "other").mkdir()
    other = new_segment(file_system, tmp_path / "other")
    batches = fill(segment, 12, records=3)
    joined = b"".join(batches)
    assert other.append(joined, headers_in(joined)) == 0
    assert entries_of(other.offset_index) == entries_of(segment.offset_index)
    assert entries_of(other.time_index) == entries_of(segment.time_index)
    assert (other.next_offset(), other.max_timestamp_ms) == (36, segment.max_timestamp_ms)


def test_older_timestamps_enter_the_time_index(segment: LogSegment) -> None:
    """TIX-7: the first batch carries the greatest timestamp."""
    append(segment, *(batch(n, [NOW_MS - n]) for n in range(9)))
    assert entries_of(segment.time_index) == [(NOW_MS, 0)]
    assert segment.offset_index.entries == 2
    assert (segment.max_timestamp_ms, segment.offset_of_max_timestamp) == (NOW_MS, 0)


def test_offset_of_the_greatest_timestamp_is_not_that_of_its_batch(segment: LogSegment) -> None:
    append(segment, batch(0, [1, 9, 5]), batch(3, [2, 9]))
    assert (segment.max_timestamp_ms, segment.offset_of_max_timestamp) == (9, 2)
    assert segment.first_batch_timestamp == 9


@pytest.mark.parametrize("offset", [99, 100 + 2**31])
def test_offset_that_does_not_fit_is_written(
    file_system: OsFileSystem, tmp_path: Path, offset: int
) -> None:
    """C015: no relative offset is ever negative or wrapped."""
    segment = new_segment(file_system, tmp_path, 100)
    with pytest.raises(IndexOverflowError, match="2147483647"):
        append(segment, batch(offset))
    assert segment.size_bytes == 0
    assert not segment.fits_offset(offset)
    append(segment, batch(100), batch(100 + 2**31 - 1))
    assert segment.next_offset() == 100 + 2**31


def test_full_disk_leaves_a_part_of_an_append(tmp_path: Path) -> None:
    """C028."""
    file_system = FaultyFileSystem()
    segment = new_segment(file_system, tmp_path)
    fill(segment, 5)
    before = file_contents(tmp_path)
    file_system.calls.free_bytes = 50
    with pytest.raises(DiskFullError):
        append(segment, batch(5))
    assert file_contents(tmp_path) == before
    assert (segment.next_offset(), segment.size_bytes) == (5, 5 * 95)
    file_system.calls.heal()
    append(segment, batch(5))
    assert segment.next_offset() == 6


def test_index_without_space_fails_an_append(tmp_path: Path) -> None:
    """Indexes are sparse: an entry that finds no space is left out, the data is served."""
    file_system = FaultyFileSystem()
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=8192)
    segment = new_segment(file_system, tmp_path, config=config)
    fill(segment, 100)
    file_system.calls.fail("write", error=28, times=None, path_part=".index")
    fill(segment, 400, first_offset=100)
    assert segment.offset_index.entries == 99
    for offset in (0, 99, 100, 300, 499):
        assert headers_in(read(segment, offset, 1) or b"")[0].base_offset == offset
    file_system.calls.heal()
    fill(segment, 1, first_offset=500)
    assert segment.offset_index.last_entry == (500, 500 * 95)
    segment.close()


def test_full_index_fails_an_append(file_system: OsFileSystem, tmp_path: Path) -> None:
    """ROLL-1 (c, d) decide before the append; within one big append the rest is not indexed."""
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=60)
    segment = new_segment(file_system, tmp_path, config=config)
    joined = b"".join(batch(number, [NOW_MS + number]) for number in range(20))
    segment.append(joined, headers_in(joined))
    assert segment.is_index_full
    assert segment.time_index.entries == 4
    assert headers_in(read(segment, 19, 10) or b"")[0].base_offset == 19
    segment.on_become_inactive()
    assert segment.time_index.last_entry[:2] == (NOW_MS + 19, 19)


def test_broken_file_takes_appends(tmp_path: Path) -> None:
    file_system = FaultyFileSystem()
    segment = new_segment(file_system, tmp_path)
    fill(segment, 1)
    file_system.calls.fail("sync")
    with pytest.raises(FileError):
        segment.flush()
    with pytest.raises(FileError):
        append(segment, batch(1))


# ---- reading by offset


def test_read_starts_at_another_batch(segment: LogSegment) -> None:
    """READ-3, READ-11."""
    batches = fill(segment, 30, records=3)
    for offset in range(90):
        content = read(segment, offset, 10_000)
        assert content == b"".join(batches[offset // 3 :])
    assert read(segment, 90, 10_000) is None


def test_read_between_survivors_returns_nothing(segment: LogSegment) -> None:
    """READ-4, READ-5, C022: offsets 10..79 survived in part, 80..99 not at all."""
    append(
        segment,
        batch(10, [NOW_MS]),
        batch(20, [NOW_MS] * 2, offset_deltas=[0, 5], last_offset_delta=9),
        batch(70, [NOW_MS], last_offset_delta=9),
    )
    first = {offset: read(segment, offset, 1) for offset in range(100)}
    for offset in range(80):
        header = headers_in(first[offset] or b"")[0]
        assert header.last_offset >= offset
        assert header.base_offset == (10 if offset <= 10 else 20 if offset <= 29 else 70)
    assert {first[offset] for offset in range(80, 100)} == {None}


@pytest.mark.parametrize("max_bytes", [0, 1, 94, 95, 96, 189, 190, 200, 2000, 9499, 10**9])
def test_answer_exceeds_the_limit_or_ends_inside_a_batch(
    segment: LogSegment, max_bytes: int
) -> None:
    """READ-6, READ-7, C036: after the first batch the limit holds, and batches are whole."""
    fill(segment, 100)
    for offset in (0, 1, 50, 98, 99):
        content = read(segment, offset, max_bytes) or b""
        available = (100 - offset) * 95
        assert len(content) == max(95, min(max_bytes // 95 * 95, available))
        bare = read(segment, offset, max_bytes, min_one_message=False)
        assert bare is not None
        assert len(bare) == min(max_bytes // 95 * 95, available)


def test_large_first_batch_brings_others_along(segment: LogSegment) -> None:
    """C036: a batch of 900 KB, then 100 small ones; limits 1 and 100 KB."""
    large = batch(0, value=bytes(900_000))
    append(segment, large, *(batch(number) for number in range(1, 101)))
    assert read(segment, 0, 1) == large
    assert read(segment, 0, 100_000) == large
    assert len(read(segment, 0, len(large) + 100) or b"") == len(large) + 95
    assert len(read(segment, 1, 300) or b"") == 3 * 95
    assert read(segment, 0, 100_000, min_one_message=False) == b""


def test_read_passes_what_may_be_seen(segment: LogSegment) -> None:
    """READ-10, and READ-2 for an offset at the limit."""
    fill(segment, 10)
    for visible in range(10):
        for offset in range(10):
            content = read(segment, offset, 10_000, max_position=visible * 95)
            assert content is not None
            assert len(content) == max(0, visible - offset) * 95
    assert len(read(segment, 0, 100, max_position=10**9) or b"") == 95


def test_negative_limit_reads_something(segment: LogSegment) -> None:
    """READ-9."""
    fill(segment, 1)
    with pytest.raises(ValueError, match="-1"):
        segment.read(0, -1)


def test_long_batches_between_entries_are_skipped(
    file_system: OsFileSystem, tmp_path: Path
) -> None:
    """Sizes from 80 bytes to beyond every read-ahead window, at random."""
    segment = new_segment(file_system, tmp_path, config=LogConfig(index_interval_bytes=4096))
    random_sizes = random.Random(5)
    starts = []
    for number in range(300):
        size = random_sizes.choice([1, 50, 500, 4000, 9000, 100_000])
        starts.append(segment.size_bytes)
        append(segment, batch(number * 2, [NOW_MS, NOW_MS], value=random_sizes.randbytes(size)))
    starts.append(segment.size_bytes)
    for number in range(300):
        extent = segment.translate(number * 2 + 1)
        assert extent is not None
        assert (extent.position, extent.end) == (starts[number], starts[number + 1])
        limit = random_sizes.randrange(300_000)
        content = read(segment, number * 2, limit) or b""
        assert starts[number] + len(content) in starts
        assert starts[number] + len(content) == max(
            starts[number + 1], *(start for start in starts if start <= starts[number] + limit)
        )


def test_upper_bound_is_below_what_was_read(segment: LogSegment) -> None:
    """READ-12: interval 200, entries at offsets 3, 6, 9, ..."""
    fill(segment, 10)
    assert segment.upper_bound_offset(95) == 3
    assert segment.upper_bound_offset(3 * 95) == 3
    assert segment.upper_bound_offset(3 * 95 + 1) == 6
    assert segment.upper_bound_offset(9 * 95 + 1) is None


def test_fetch_in_flight_dies_with_its_segment(segment: LogSegment, tmp_path: Path) -> None:
    """READ-13."""
    batches = fill(segment, 3)
    part = segment.read(0, 1000)
    assert part is not None
    segment.change_suffix("", ".deleted")
    segment.delete_files()
    assert list(tmp_path.iterdir()) == []
    assert part.read() == b"".join(batches)
    part.release()


# ---- by time


def test_lookup_between_two_timestamps_returns_the_earlier_record(segment: LogSegment) -> None:
    """C005, LIST-5."""
    append(segment, *(batch(number, [2 * number + 2]) for number in range(4)))
    found = [segment.find_offset_by_timestamp(time, 0) for time in range(10)]
    offsets = [None if one is None else one.offset for one in found]
    assert offsets == [0, 0, 0, 1, 1, 2, 2, 3, 3, None]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_time_lookup_is_exact_to_the_batch_only(segment: LogSegment, codec: Codec) -> None:
    """C005: 200 probes over 2000 records in batches of 7."""
    for first in range(0, 2002, 7):
        stamps = [NOW_MS + 10 * number for number in range(first, first + 7)]
        append(segment, batch(first, stamps, codec=codec, leader_epoch=first))
    probes = random.Random(1)
    for number in (probes.randrange(2000) for _ in range(200)):
        stamp = NOW_MS + 10 * number
        epoch = number // 7 * 7
        assert segment.find_offset_by_timestamp(stamp, 0) == (stamp, number, epoch)
        assert segment.find_offset_by_timestamp(stamp - 1, 0) == (stamp, number, epoch)
        assert (segment.find_offset_by_timestamp(stamp + 1, 0) or (0, 0))[1] == number + 1


def test_time_lookup_in_disorder_disagrees_with_a_linear_scan(segment: LogSegment) -> None:
    order = random.Random(2)
    stamps = [NOW_MS + order.randrange(500) for _ in range(400)]
    for first in range(0, 400, 4):
        append(segment, batch(first, stamps[first : first + 4]))
    for target in range(NOW_MS, NOW_MS + 501, 3):
        for start in (0, 13, 200, 399):
            expected = next((n for n in range(start, 400) if stamps[n] >= target), None)
            found = segment.find_offset_by_timestamp(target, start)
            assert (None if found is None else found.offset) == expected
            assert found is None or found.timestamp_ms == stamps[found.offset]


# ---- life cycle


def test_sealed_segment_has_lost_its_greatest_timestamp(
    segment: LogSegment, file_system: OsFileSystem, tmp_path: Path
) -> None:
    """ROLL-8, TIX-5: the closing entry tells it after a restart."""
    fill(segment, 5)
    segment.on_become_inactive()
    assert {name: len(content) for name, content in file_contents(tmp_path).items()} == {
        "00000000000000000000.log": 475,
        "00000000000000000000.index": 8,
        "00000000000000000000.timeindex": 24,
    }
    again = reopened(file_system, tmp_path)
    assert file_system.open_files <= 3
    assert (again.max_timestamp_ms, again.offset_of_max_timestamp) == (NOW_MS + 40, 4)
    assert again.largest_timestamp_ms == NOW_MS + 40
    assert again.next_offset() == 5
    assert again.first_batch_timestamp == NOW_MS


def test_restart_shifts_the_index_entries(
    segment: LogSegment, file_system: OsFileSystem, tmp_path: Path
) -> None:
    """REC-3, INV-2: appending across restarts gives the entries of appending at once."""
    (tmp_path / "other").mkdir()
    fill(segment, 20)
    segment.on_become_inactive()
    restarted = new_segment(file_system, tmp_path / "other")
    for offset in range(20):
        fill(restarted, 1, first_offset=offset)
        restarted.close()
        restarted = reopened(file_system, tmp_path / "other")
        restarted.prepare_for_appends()
    restarted.close()
    # The time index has one closing entry a restart more, as Kafka's.
    assert file_contents(tmp_path, [".log", ".0.index"]) == file_contents(
        tmp_path / "other", [".log", ".0.index"]
    )
    assert file_contents(tmp_path, [".index"]) == file_contents(tmp_path / "other", [".index"])


def test_opening_a_sealed_segment_takes_a_descriptor(tmp_path: Path) -> None:
    """C032."""
    file_system = OsFileSystem()
    segment = new_segment(file_system, tmp_path)
    fill(segment, 50)
    segment.close()
    assert file_system.open_files == 0
    segments = [reopened(file_system, tmp_path) for _ in range(20)]
    assert file_system.open_files == 0
    for one in segments:
        one.close()
    assert file_system.open_files == 0


def test_closing_changes_a_segment_that_nobody_used(tmp_path: Path) -> None:
    file_system = FaultyFileSystem()
    segment = new_segment(file_system, tmp_path)
    fill(segment, 50)
    segment.close()
    changes = file_system.calls.total
    reopened(file_system, tmp_path).close()
    assert file_system.calls.total == changes


def test_preallocated_segment_keeps_zeros(file_system: OsFileSystem, tmp_path: Path) -> None:
    """ROLL-16."""
    config = LogConfig(preallocate=True, segment_bytes=5000, segment_index_bytes=800)
    segment = new_segment(file_system, tmp_path, config=config)
    assert (tmp_path / "00000000000000000000.log").stat().st_size == 5000
    fill(segment, 2)
    assert segment.size_bytes == 190
    segment.on_become_inactive()
    assert (tmp_path / "00000000000000000000.log").stat().st_size == 190


def test_failed_creation_leaves_files(tmp_path: Path) -> None:
    """C028: a roll on a full disk can be tried again."""
    file_system = FaultyFileSystem()
    for operation, skip in (("create", 0), ("create", 1), ("create", 2), ("write", 0)):
        file_system.calls.fail(operation, error=28, skip=skip)
        with pytest.raises(DiskFullError):
            new_segment(file_system, tmp_path)
        assert list(tmp_path.iterdir()) == []
    new_segment(file_system, tmp_path).close()


def test_renaming_loses_the_open_files(
    segment: LogSegment, file_system: OsFileSystem, tmp_path: Path
) -> None:
    batches = fill(segment, 10)
    segment.change_suffix("", ".swap")
    assert {path.suffix for path in tmp_path.iterdir()} == {".swap"}
    fill(segment, 1, first_offset=10)
    assert (read(segment, 0, 950) or b"") == b"".join(batches)
    with pytest.raises(ValueError, match="has the suffix"):
        segment.change_suffix(".cleaned", "")
    segment.change_suffix(".swap", "")
    segment.on_become_inactive()
    again = reopened(file_system, tmp_path)
    assert again.next_offset() == 11


def test_moved_folder_is_read_at_the_old_place(file_system: OsFileSystem, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    segment = new_segment(file_system, tmp_path / "a")
    batches = fill(segment, 10)
    (tmp_path / "a").rename(tmp_path / "b")
    segment.files.moved(str(tmp_path / "b"))
    file_system._pool._make_room(0)
    assert read(segment, 0, 10_000) == b"".join(batches)
    segment.close()
    assert (tmp_path / "b" / "00000000000000000000.index").stat().st_size == 24
    segment.delete_files()
    assert list((tmp_path / "b").iterdir()) == []


def test_unchanged_index_is_synced(tmp_path: Path) -> None:
    """FLUSH-2: data, offset index, time index, in this order, and only what changed."""
    file_system = FaultyFileSystem()
    segment = new_segment(file_system, tmp_path)
    fill(segment, 10)
    sync = segment.begin_sync()
    sync.run()
    fill(segment, 1, first_offset=10)
    sync.release()
    sync.release()
    assert file_system.calls.counts["sync"] == 3
    segment.flush()
    assert file_system.calls.counts["sync"] == 4
    segment.flush()
    assert file_system.calls.counts["sync"] == 4
    fill(segment, 10, first_offset=11)
    held = segment.begin_sync(with_indexes=False)
    held.run()
    held.release()
    assert file_system.calls.counts["sync"] == 5


def test_sync_in_flight_loses_its_file(segment: LogSegment) -> None:
    fill(segment, 10)
    sync = segment.begin_sync()
    segment.files.close()
    sync.run()
    sync.release()


def test_time_of_a_compacted_segment_is_now(segment: LogSegment) -> None:
    """SEG-2."""
    segment.files.set_modified_ms(NOW_MS)
    assert segment.largest_timestamp_ms == NOW_MS


def test_headers_of_a_segment_are_skipped(segment: LogSegment) -> None:
    batches = fill(segment, 20, records=2)
    assert [header for header, _ in segment.batches()] == [read_header(one) for one in batches]
    tail = list(segment.batches(from_offset=31))
    assert [header.base_offset for header, _ in tail] == [30, 32, 34, 36, 38]
    header, position = tail[0]
    assert bytes(segment.read_batch(position, header.size_bytes).view) == batches[15]


def test_changed_settings_wait_for_the_next_segment(segment: LogSegment) -> None:
    segment.update_config(LogConfig(index_interval_bytes=0, segment_index_bytes=80))
    fill(segment, 5)
    assert segment.offset_index.entries == 4
    assert SMALL.index_interval_bytes == 200

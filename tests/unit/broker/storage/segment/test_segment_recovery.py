"""What a start makes of damaged segments: torn data, damaged indexes, too many offsets."""

import logging
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from struct import pack_into

import pytest

from seglog.broker.storage.errors import (
    CorruptIndexError,
    MissingFileError,
    SegmentOverflowError,
)
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.segment.segment import LogSegment
from seglog.broker.storage.segment.split import split_segment
from seglog.broker.storage.segment.transaction_index import AbortedTransaction
from seglog.config.log_config import LogConfig
from seglog.protocol.records.batch import BatchHeader, read_header
from support.faulty_file_system import FaultyFileSystem
from support.index_checks import check_indexes
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

LOG = "00000000000000000000.log"
INDEX = "00000000000000000000.index"
TIME_INDEX = "00000000000000000000.timeindex"


@pytest.fixture
def file_system() -> OsFileSystem:
    return OsFileSystem()


@pytest.fixture
def sealed(file_system: OsFileSystem, tmp_path: Path) -> Path:
    """The folder of a segment with 100 batches of 3 records."""
    directory = tmp_path / "sealed"
    directory.mkdir()
    segment = new_segment(file_system, directory)
    fill(segment, 100, records=3)
    segment.close()
    return directory


def read_offsets(segment: LogSegment) -> list[int]:
    """The base offset of every batch, read one after the other by offset."""
    offsets = []
    offset = segment.base_offset
    while (part := segment.read(offset, 1)) is not None:
        header = headers_in(part.read())[0]
        part.release()
        offsets.append(header.base_offset)
        offset = header.next_offset
    return offsets


# ---- recovery of the data


def test_recovery_of_a_whole_segment_changes_it(file_system: OsFileSystem, sealed: Path) -> None:
    """REC-3: and it can be repeated."""
    before = file_contents(sealed)
    for _ in range(2):
        segment = reopened(file_system, sealed)
        seen: list[tuple[BatchHeader, int]] = []
        assert (
            segment.recover(lambda header, position, seen=seen: seen.append((header, position)))
            == 0
        )  # type: ignore[misc]
        assert [header.base_offset for header, _ in seen] == list(range(0, 300, 3))
        assert [read_header(before[LOG], position) for _, position in seen] == [h for h, _ in seen]
        assert (segment.next_offset(), segment.max_timestamp_ms) == (300, NOW_MS + 2990)
        segment.close()
        assert file_contents(sealed) == before


def test_recovery_after_a_kill_misses_entries(file_system: OsFileSystem, tmp_path: Path) -> None:
    """REC-16: the untrimmed indexes of a killed broker give way to the same ones, trimmed."""
    segment = new_segment(file_system, tmp_path)
    fill(segment, 60)
    shutil.copytree(tmp_path, tmp_path / "killed", ignore=shutil.ignore_patterns("killed"))
    segment.close()
    killed = reopened(file_system, tmp_path / "killed")
    assert killed.recover() == 0
    killed.close()
    assert file_contents(tmp_path / "killed") == {
        path.name: path.read_bytes() for path in tmp_path.glob("0*")
    }


@pytest.mark.parametrize("cut", [*range(1, 20), *range(20, 601, 17), 600])
def test_torn_tail_stops_the_start_or_is_sent(
    file_system: OsFileSystem, tmp_path: Path, cut: int
) -> None:
    """C030: the next offset is 3 x complete batches, and the next append gets it."""
    segment = new_segment(file_system, tmp_path)
    batches = fill(segment, 10, records=3)
    size = sum(map(len, batches))
    segment.log.truncate(size - cut)
    segment.files.close()
    again = reopened(file_system, tmp_path)
    removed = again.recover()
    complete = (size - cut) // len(batches[0])
    assert removed == (size - cut) % len(batches[0])
    assert again.next_offset() == 3 * complete
    again.prepare_for_appends()
    append(again, batch(3 * complete))
    assert read_offsets(again) == list(range(0, 3 * complete + 1, 3))
    again.close()


@pytest.mark.parametrize(
    "junk",
    [bytes(1), bytes(60), bytes(61), bytes(4096), random.Random(1).randbytes(4096), None],
    ids=["1 zero", "60 zeros", "61 zeros", "4096 zeros", "random", "copy of the last batch"],
)
def test_junk_behind_the_last_batch_is_kept(
    file_system: OsFileSystem, sealed: Path, junk: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """C030, REC-16: one line says what was cut and why."""
    before = file_contents(sealed)
    whole = before[LOG]
    added = whole[-len(whole) // 100 :] if junk is None else junk
    (sealed / LOG).write_bytes(whole + added)
    segment = reopened(file_system, sealed)
    with caplog.at_level(logging.WARNING):
        assert segment.recover() == len(added)
    assert segment.next_offset() == 300
    segment.close()
    assert file_contents(sealed) == before
    assert len(caplog.records) == 1
    assert f"position={len(whole)} bytes={len(added)} reason=" in caplog.text


def test_flipped_bit_is_served(file_system: OsFileSystem, sealed: Path) -> None:
    """REC-4: the data ends before the batch with the flipped bit, wherever in it that is."""
    whole = (sealed / LOG).read_bytes()
    size = len(whole) // 100
    flips = random.Random(3)
    for number in (0, 1, 50, 99):
        # Offset and leader epoch are outside of the checksum: only their order is checked.
        for position in [
            8,
            10,
            16,
            17,
            21,
            23,
            27,
            60,
            *(flips.randrange(21, size) for _ in "abc"),
        ]:
            damaged = bytearray(whole)
            damaged[number * size + position] ^= 1 << flips.randrange(8)
            (sealed / LOG).write_bytes(damaged)
            segment = reopened(file_system, sealed)
            assert segment.recover() == (100 - number) * size, (number, position)
            assert segment.next_offset() == 3 * number
            segment.close()


@pytest.mark.parametrize("offset", [-1, 0, 2, 2**40])
def test_offsets_descend_or_jump_out_of_the_segment(
    file_system: OsFileSystem, tmp_path: Path, offset: int
) -> None:
    segment = new_segment(file_system, tmp_path)
    append(segment, batch(0, [NOW_MS] * 3))
    segment.log.append(batch(offset))
    segment.files.close()
    again = reopened(file_system, tmp_path)
    if offset == 2**40:
        with pytest.raises(SegmentOverflowError):
            again.recover()
    else:
        assert again.recover() == len(batch(offset))
        assert again.next_offset() == 3
    again.close()


@pytest.mark.parametrize("is_damaged", [False, True])
def test_batch_larger_than_the_buffer_is_taken_for_damage(
    file_system: OsFileSystem, tmp_path: Path, is_damaged: bool
) -> None:
    segment = new_segment(file_system, tmp_path)
    large = random.Random(4).randbytes(3 << 20)
    append(segment, batch(0), batch(1, value=large), batch(2))
    segment.files.close()
    if is_damaged:
        with (tmp_path / LOG).open("r+b") as file:
            file.seek(2 << 20)
            file.write(b"\0\1\2\3")
    again = reopened(file_system, tmp_path)
    again.recover()
    assert again.next_offset() == (1 if is_damaged else 3)
    again.close()


def test_recovery_keeps_aborts_that_are_no_more(file_system: OsFileSystem, sealed: Path) -> None:
    """Aborted transactions come back through the caller."""
    segment = reopened(file_system, sealed)
    segment.transaction_index.append(AbortedTransaction(1, 0, 5, 6))
    segment.recover()
    assert segment.transaction_index.all() == []
    segment.close()


def test_preallocated_zeros_are_kept(file_system: OsFileSystem, tmp_path: Path) -> None:
    """ROLL-16 after a kill."""
    config = LogConfig(preallocate=True, segment_bytes=5000)
    segment = new_segment(file_system, tmp_path, config=config)
    fill(segment, 3)
    segment.files.close()
    again = reopened(file_system, tmp_path)
    assert again.size_bytes == 5000
    again.recover()
    assert again.size_bytes == 3 * 95
    again.close()


def test_full_disk_stops_the_start(sealed: Path) -> None:
    """The indexes may get no block: the data is served, and the next start builds them."""
    before = file_contents(sealed)
    for name in (INDEX, TIME_INDEX):
        (sealed / name).write_bytes(b"")
    file_system = FaultyFileSystem()
    file_system.calls.free_bytes = 0
    segment = reopened(file_system, sealed)
    assert segment.recover() == 0
    assert segment.next_offset() == 300
    assert segment.max_timestamp_ms == NOW_MS + 2990
    assert read_offsets(segment) == list(range(0, 300, 3))
    segment.close()
    file_system.calls.heal()
    with pytest.raises(CorruptIndexError):
        check_indexes(reopened(file_system, sealed))
    again = reopened(file_system, sealed)
    assert again.max_timestamp_ms == NOW_MS + 2990
    again.close()
    assert file_contents(sealed) == before


# ---- damaged indexes


def swapped(first: int, second: int, size: int) -> Callable[[bytes], bytes]:
    def swap(content: bytes) -> bytes:
        rows = [content[at : at + size] for at in range(0, len(content), size)]
        rows[first], rows[second] = rows[second], rows[first]
        return b"".join(rows)

    return swap


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "removed": lambda content: None,
    "0 bytes": lambda content: b"",
    "13 bytes": lambda content: content[:13],
    "filled with 0xFF": lambda content: b"\xff" * len(content),
    "untrimmed": lambda content: content + bytes(240),
    "only zeros": lambda content: bytes(len(content)),
}
OFFSET_DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    **DAMAGES,
    "last entry at the base": lambda content: content[:-8] + bytes(4) + content[-4:],
    "first two swapped": swapped(0, 1, 8),
    "last two swapped": swapped(-1, -2, 8),
    "last position beyond the data": lambda content: content[:-4] + b"\x7f\0\0\0",
    "positions off by one": lambda content: b"".join(
        content[at : at + 4] + (int.from_bytes(content[at + 4 : at + 8]) + 1).to_bytes(4)
        for at in range(0, len(content), 8)
    ),
    "position in the middle wrong": lambda content: (
        content[:164] + (int.from_bytes(content[164:168]) + 30).to_bytes(4) + content[168:]
    ),
}
TIME_DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    **DAMAGES,
    "last entry below the base": lambda content: content[:-4] + b"\xff\xff\xff\xff",
    "first two swapped": swapped(0, 1, 12),
    "last two swapped": swapped(-1, -2, 12),
    "last offset beyond the data": lambda content: content[:-4] + b"\x7f\0\0\0",
    "last timestamp wrong": lambda content: content[:-5] + b"\xff" + content[-4:],
}


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(pytest.param(INDEX, cut, id=f"index {what}") for what, cut in OFFSET_DAMAGES.items()),
        *(pytest.param(TIME_INDEX, cut, id=f"times {what}") for what, cut in TIME_DAMAGES.items()),
    ],
)
def test_damaged_index_serves_wrong_positions(
    file_system: OsFileSystem,
    sealed: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    damage: Callable[[bytes], bytes | None],
) -> None:
    """C026: a full read and 100 probes by time are as before, with at most one line in the log."""
    before = file_contents(sealed)
    content = damage(before[name])
    if content is None:
        (sealed / name).unlink()
    else:
        (sealed / name).write_bytes(content)
    segment = reopened(file_system, sealed)
    with caplog.at_level(logging.WARNING):
        assert (segment.max_timestamp_ms, segment.next_offset()) == (NOW_MS + 2990, 300)
        assert read_offsets(segment) == list(range(0, 300, 3))
        for offset in range(300):
            extent = segment.translate(offset)
            assert extent is not None
            assert extent.base_offset == offset // 3 * 3
        for offset in range(0, 300, 3):
            found = segment.find_offset_by_timestamp(NOW_MS + 10 * offset - 5, 0)
            assert found is not None
            assert found[:2] == (NOW_MS + 10 * offset, offset)
        for limit in range(0, 10_000, 333):
            part = segment.read(0, limit)
            assert part is not None
            assert sum(header.size_bytes for header in headers_in(part.read())) == part.length
            part.release()
    segment.close()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) <= 1
    if file_contents(sealed) != before:
        # Two swapped entries that are right in themselves only cost time.
        assert lines == []
        with pytest.raises(CorruptIndexError):
            check_indexes(reopened(file_system, sealed), every_entry=True)
        healed = reopened(file_system, sealed)
        healed.rebuild_indexes()
        healed.close()
    assert file_contents(sealed) == before


@pytest.mark.parametrize("name", [INDEX, TIME_INDEX])
def test_start_does_not_notice_what_its_checks_could(
    file_system: OsFileSystem, sealed: Path, name: str
) -> None:
    check_indexes(reopened(file_system, sealed), every_entry=True)
    content = (sealed / name).read_bytes()
    for damaged in (b"", content[:13], b"\xff" * len(content), content + bytes(240)):
        (sealed / name).write_bytes(damaged)
        with pytest.raises(CorruptIndexError):
            check_indexes(reopened(file_system, sealed))
    (sealed / name).unlink()
    with pytest.raises(MissingFileError):
        check_indexes(reopened(file_system, sealed))


def test_emptied_data_file_keeps_its_index(file_system: OsFileSystem, sealed: Path) -> None:
    """C026."""
    (sealed / LOG).write_bytes(b"")
    segment = reopened(file_system, sealed)
    with pytest.raises(CorruptIndexError):
        check_indexes(segment)
    assert segment.next_offset() == 0
    assert segment.read(0, 100) is None
    segment.close()
    assert (sealed / INDEX).stat().st_size == 0


@pytest.mark.parametrize("count", [0, 1, 2])
def test_small_segment_is_taken_for_damaged(
    file_system: OsFileSystem, tmp_path: Path, count: int
) -> None:
    """Empty indexes are right for it."""
    segment = new_segment(file_system, tmp_path)
    fill(segment, count)
    segment.close()
    check_indexes(reopened(file_system, tmp_path))


def test_records_without_timestamps_are_taken_for_damage(
    file_system: OsFileSystem, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """LIST-6."""
    segment = new_segment(file_system, tmp_path)
    append(segment, *(batch(number, [-1]) for number in range(20)))
    segment.close()
    again = reopened(file_system, tmp_path)
    assert again.max_timestamp_ms == -1
    again.files.set_modified_ms(NOW_MS)
    assert again.largest_timestamp_ms == NOW_MS
    assert caplog.records == []


def test_rebuilding_cuts_data(file_system: OsFileSystem, sealed: Path) -> None:
    """It is for data that is trusted: a bad batch ends the index, not the file."""
    damaged = bytearray((sealed / LOG).read_bytes())
    size = len(damaged) // 100
    pack_into(">i", damaged, 50 * size + 8, 5)
    (sealed / LOG).write_bytes(damaged)
    segment = reopened(file_system, sealed)
    segment.rebuild_indexes()
    assert (sealed / LOG).stat().st_size == 100 * size
    last = segment.offset_index.last_entry
    assert last is not None
    assert 140 <= last.offset < 150
    segment.close()


# ---- too many offsets


def overflowing(file_system: OsFileSystem, directory: Path, *offsets: int) -> LogSegment:
    (directory / LOG).write_bytes(b"".join(batch(offset, [NOW_MS + 1]) for offset in offsets))
    return reopened(file_system, directory)


def test_wide_segment_gets_wrapped_offsets(file_system: OsFileSystem, tmp_path: Path) -> None:
    """C015, REC-5: refused with the position, split without losing a record."""
    offsets = [0, 7, 2147483658, 2147483659, 2**33]
    segment = overflowing(file_system, tmp_path, *offsets)
    with pytest.raises(SegmentOverflowError, match="must be split") as caught:
        segment.recover()
    assert (caught.value.offset, caught.value.position) == (2147483658, 2 * 95)
    with pytest.raises(SegmentOverflowError):
        segment.rebuild_indexes()
    parts = split_segment(file_system, segment, SMALL, NOW_MS)
    assert [part.base_offset for part in parts] == [0, 2147483658, 2**33]
    assert [read_offsets(part) for part in parts] == [[0, 7], [2147483658, 2147483659], [2**33]]
    joined = b"".join(Path(part.log.path).read_bytes() for part in parts)
    assert joined == (tmp_path / LOG).read_bytes()
    for part in parts:
        assert part.log.path.endswith(".log.cleaned")
        check_indexes(part, every_entry=True)


def test_failed_split_leaves_files(tmp_path: Path) -> None:
    file_system = FaultyFileSystem()
    segment = overflowing(file_system, tmp_path, *range(10), 2**31 + 5)
    for operation in ("write", "sync", "truncate"):
        file_system.calls.fail(operation, error=28)
        with pytest.raises(Exception, match="No space"):
            split_segment(file_system, segment, SMALL, NOW_MS)
        assert [path.name for path in tmp_path.iterdir()] == [LOG]


def test_largest_span_is_refused(file_system: OsFileSystem, tmp_path: Path) -> None:
    segment = overflowing(file_system, tmp_path, 0, 2**31 - 1)
    segment.recover()
    assert read_offsets(segment) == [0, 2**31 - 1]
    segment.close()


# ---- truncation


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 14, 15, 16, 149, 299, 300, 301])
def test_truncation_cuts_inside_a_batch_or_leaves_entries(
    file_system: OsFileSystem, tmp_path: Path, offset: int
) -> None:
    """TRUNC-3, TRUNC-8, IDX-6, IDX-9: as if the rest had never been appended."""
    segment = new_segment(file_system, tmp_path)
    batches = fill(segment, 100, records=3)
    keep = min(offset // 3, 100)
    assert segment.truncate_to(offset, NOW_MS + 1) == sum(map(len, batches[keep:]))
    assert segment.next_offset() == 3 * keep
    assert segment.max_timestamp_ms == (NOW_MS + 10 * (3 * keep - 1) if keep else -1)
    assert not segment.is_index_full
    (tmp_path / "model").mkdir()
    model = new_segment(file_system, tmp_path / "model")
    append(model, *batches[:keep])
    for one in (segment, model):
        append(one, batch(1000, [NOW_MS + 10**6]), batch(1001, [NOW_MS + 10**6 + 1]))
        one.close()
    assert file_contents(tmp_path / "model") == {
        path.name: path.read_bytes() for path in tmp_path.glob("0*")
    }


def test_emptied_segment_keeps_its_age(file_system: OsFileSystem, tmp_path: Path) -> None:
    """TRUNC-7."""
    segment = new_segment(file_system, tmp_path)
    fill(segment, 3)
    segment.transaction_index.append(AbortedTransaction(1, 0, 2, 0))
    segment.truncate_to(1, NOW_MS + 5)
    assert (segment.created_ms, segment.first_batch_timestamp) == (NOW_MS, NOW_MS)
    assert segment.transaction_index.all() == []
    segment.truncate_to(0, NOW_MS + 5)
    assert (segment.created_ms, segment.first_batch_timestamp) == (NOW_MS + 5, None)
    assert segment.max_timestamp_ms == -1
    append(segment, batch(0, [7]))
    assert (segment.first_batch_timestamp, segment.max_timestamp_ms) == (7, 7)
    segment.close()


@pytest.mark.parametrize("entry", [(20, -7), (150, 1 << 30), (-1, -1), (1 << 30, 40)])
def test_junk_inside_the_offset_index_fails_a_read(
    sealed: Path, file_system: OsFileSystem, entry: tuple[int, int]
) -> None:
    """C026: both ends of the index look right; a position that no file has fails no disk."""
    path = sealed / INDEX
    content = bytearray(path.read_bytes())
    for number in range(10, 20):
        pack_into(">ii", content, 8 * number, *entry)
    path.write_bytes(content)
    segment = reopened(file_system, sealed)
    assert read_offsets(segment) == list(range(0, 300, 3))
    segment = reopened(file_system, sealed)
    for offset in range(300):
        found = segment.find_offset_by_timestamp(NOW_MS + 10 * offset, 0)
        assert found is not None
        assert found.offset == offset


@pytest.mark.parametrize("offset", [299, 1 << 30, -5])
def test_junk_inside_the_time_index_hides_records(
    sealed: Path, file_system: OsFileSystem, offset: int
) -> None:
    """C026: an entry with a small timestamp and a large offset would skip what it passes."""
    path = sealed / TIME_INDEX
    content = bytearray(path.read_bytes())
    for number in range(10, 20):
        pack_into(">qi", content, 12 * number, NOW_MS - 1, offset)
    path.write_bytes(content)
    segment = reopened(file_system, sealed)
    for wanted in range(300):
        found = segment.find_offset_by_timestamp(NOW_MS + 10 * wanted, 0)
        assert found is not None
        assert found.offset == wanted


def test_junk_inside_the_offset_index_bounds_a_transaction_too_early(
    sealed: Path, file_system: OsFileSystem
) -> None:
    """READ-12: an offset that is too small would leave aborted transactions out."""
    path = sealed / INDEX
    content = bytearray(path.read_bytes())
    positions = [int.from_bytes(content[8 * n + 4 : 8 * n + 8], "big") for n in range(10, 20)]
    for number, position in enumerate(positions, start=10):
        pack_into(">ii", content, 8 * number, 1, position)
    path.write_bytes(content)
    segment = reopened(file_system, sealed)
    whole = reopened(file_system, sealed)
    whole.rebuild_indexes()
    assert segment.upper_bound_offset(positions[4]) == whole.upper_bound_offset(positions[4])

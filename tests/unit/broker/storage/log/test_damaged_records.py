"""One damaged batch in a log (U3): what is good is read, what is lost is named, nothing is made up.

Only what no checksum covers is tried here, offsets and lengths, and whole batches of zeros: records
that are damaged inside are found by whoever reads them.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from struct import pack, unpack

import pytest

from seglog.broker.storage.errors import CorruptLogError, DamagedRecordsError, DeferredReadError
from seglog.broker.storage.log.log import FetchIsolation, Log
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.batch import iter_batches
from support.log_builder import KEEP, NOW_MS, append, at_once, open_log, read_bytes

CONFIG = replace(KEEP, index_interval_bytes=200, segment_index_bytes=4000)
COMMITTED = FetchIsolation.HIGH_WATERMARK
RECORDS, BATCHES, FIRST_SEGMENT = 10, 20, 12
END = RECORDS * BATCHES

Mutation = Callable[[bytearray, int, int], None]


def zero(data: bytearray, start: int, end: int) -> None:
    data[start:end] = bytes(end - start)


def lengthen(data: bytearray, start: int, _end: int) -> None:
    data[start + 8 : start + 12] = pack(">i", unpack(">i", data[start + 8 : start + 12])[0] + 7)


def shorten(data: bytearray, start: int, _end: int) -> None:
    data[start + 8 : start + 12] = pack(">i", 20)


def move(by: int, data: bytearray, start: int, _end: int) -> None:
    data[start : start + 8] = pack(">q", unpack(">q", data[start : start + 8])[0] + by)


MUTATIONS: dict[str, Mutation] = {
    "zeros": zero,
    "length too large": lengthen,
    "length too small": shorten,
    "offset far up": partial(move, 1 << 20),
    "offset a little up": partial(move, 6),
    "offset down": partial(move, -5),
    "offset far down": partial(move, -64),
}


def built(folder: Path) -> None:
    log = open_log(folder, CONFIG)
    for number in range(BATCHES):
        if number == FIRST_SEGMENT:
            log.roll(NOW_MS)
        stamps = [NOW_MS + number * RECORDS + each for each in range(RECORDS)]
        append(log, [b"value" * 4] * RECORDS, timestamps_ms=stamps)
    log.close()


def damaged_log(folder: Path, mutate: Mutation, batch: int) -> Log:
    """A log of two segments, opened after a clean stop, of which one batch was damaged."""
    built(folder)
    path = sorted(folder.glob("*.log"))[batch >= FIRST_SEGMENT]
    data = bytearray(path.read_bytes())
    position = 0
    for each in iter_batches(bytes(data)):
        if each.header.base_offset == batch * RECORDS:
            break
        position += each.header.size_bytes
    mutate(data, position, position + each.header.size_bytes)
    path.write_bytes(data)
    log = open_log(folder, CONFIG, clean=True)
    log.set_high_watermark(log.offsets.log_end)
    return log


def readable(log: Log, until: int = END) -> list[int]:
    """The offsets that a reader gets which goes on behind damage, each read checked."""
    offsets: list[int] = []
    position = 0
    while position < until:
        try:
            content = read_bytes(log, position, 700, isolation=COMMITTED)
        except DamagedRecordsError as error:
            position = error.next_offset or until
            continue
        assert content
        for each in iter_batches(content):
            each.check()
            assert each.header.next_offset > position >= each.header.base_offset
            offsets += [record.offset for record in each.records(from_offset=position)]
            position = each.header.next_offset
    return offsets


@pytest.mark.parametrize("batch", [3, 9, FIRST_SEGMENT - 1, FIRST_SEGMENT, 15])
@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS)
def test_all_but_the_damaged_batch_is_read(tmp_path: Path, mutate: Mutation, batch: int) -> None:
    """U3 (a), (c)."""
    log = damaged_log(tmp_path / "log", mutate, batch)
    first = batch * RECORDS
    lost = set(range(first, first + RECORDS))
    assert readable(log) == [offset for offset in range(END) if offset not in lost]
    for offset in lost:
        with pytest.raises(DamagedRecordsError) as refusal:
            read_bytes(log, offset, 700, isolation=COMMITTED)
        assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE
        assert f"go on at offset {first + RECORDS}" in str(refusal.value)


@pytest.mark.parametrize("first_read", [first * RECORDS + 3 for first in range(0, BATCHES, 3)])
@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS)
def test_wherever_reading_begins_no_wrong_offset_is_served(
    tmp_path: Path, mutate: Mutation, first_read: int
) -> None:
    """U3 (c): a reader is never given offsets beyond the high watermark, or those of others."""
    log = damaged_log(tmp_path / "log", mutate, 9)
    try:
        content = read_bytes(log, first_read, isolation=COMMITTED)
    except DamagedRecordsError:
        assert 90 <= first_read < 100
        return
    expected = first_read // RECORDS * RECORDS
    for each in iter_batches(content):
        assert (each.header.base_offset, each.header.next_offset) == (expected, expected + RECORDS)
        expected += RECORDS
    assert expected > first_read


@pytest.mark.parametrize("batch", [3, 9, FIRST_SEGMENT - 1, 15])
@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS)
def test_lookup_by_time_goes_on_behind_the_damage(
    tmp_path: Path, mutate: Mutation, batch: int
) -> None:
    """U3 (d)."""
    log = damaged_log(tmp_path / "log", mutate, batch)
    first = batch * RECORDS
    for offset in (first - 1, first, first + 9, first + 10, END - 1):
        found = at_once(partial(log.offset_for_timestamp, NOW_MS + offset, isolation=COMMITTED))
        assert found is not None
        behind = first + RECORDS if first <= offset < first + RECORDS else offset
        # A batch of which only the length is wrong still shows its records.
        assert found.offset == behind or (mutate is lengthen and found.offset == offset)
        assert found.timestamp_ms == NOW_MS + found.offset


@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS)
def test_damage_is_said_once_and_indexes_stay_small(
    tmp_path: Path, mutate: Mutation, caplog: pytest.LogCaptureFixture
) -> None:
    """U3 (a), (e): indexes of 10 MB of zeros were left."""
    log = damaged_log(tmp_path / "log", mutate, 9)
    data = [path.read_bytes() for path in sorted((tmp_path / "log").glob("*.log"))]
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            readable(log)
    said = [each.getMessage() for each in caplog.records if "records-damaged" in each.getMessage()]
    assert len(said) == 1
    assert "first_offset=90 next_offset=100" in said[0]
    log.close()
    assert [path.read_bytes() for path in sorted((tmp_path / "log").glob("*.log"))] == data
    for path in (tmp_path / "log").glob("*.*index"):
        content = path.read_bytes()
        assert len(content) < 1000
        assert not content or any(content[-12:])
    assert not list((tmp_path / "log").glob("*.tmp"))


def test_segment_without_an_index_and_with_a_wrong_offset_gets_a_small_index(
    tmp_path: Path,
) -> None:
    """U3 (e): a start without the index builds it from headers that are wrong."""
    folder = tmp_path / "log"
    damaged_log(folder, partial(move, 1 << 20), 9).abandon()
    for path in folder.glob("*.index"):
        path.unlink()
    log = open_log(folder, CONFIG, clean=True)
    log.set_high_watermark(log.offsets.log_end)
    assert (folder / "00000000000000000000.index").stat().st_size < 1000
    assert readable(log) == [offset for offset in range(END) if not 90 <= offset < 100]


def test_two_damaged_batches_are_two_holes(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    damaged_log(folder, zero, 4).abandon()
    path = folder / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    size = len(data) // FIRST_SEGMENT
    move(1 << 20, data, 7 * size, 8 * size)
    path.write_bytes(data)
    log = open_log(folder, CONFIG, clean=True)
    log.set_high_watermark(log.offsets.log_end)
    lost = {*range(40, 50), *range(70, 80)}
    assert readable(log) == [offset for offset in range(END) if offset not in lost]


def test_records_appended_behind_damage_at_the_end_are_read(tmp_path: Path) -> None:
    log = damaged_log(tmp_path / "log", partial(move, -5), BATCHES - 2)
    append(log, [b"new"], timestamps_ms=NOW_MS + END)
    log.set_high_watermark(log.offsets.log_end)
    first = (BATCHES - 2) * RECORDS
    assert readable(log) == [each for each in range(END + 1) if not first <= each < first + 10]


def test_reading_never_writes(tmp_path: Path) -> None:
    """What does not fit is left for another thread; the read itself changes no file."""
    log = damaged_log(tmp_path / "log", zero, 9)
    before = {path.name: path.read_bytes() for path in (tmp_path / "log").iterdir()}
    with pytest.raises(DeferredReadError):
        log.read(95, 1000, isolation=COMMITTED)
    with pytest.raises(DeferredReadError):
        log.offset_for_timestamp(NOW_MS + 95, isolation=COMMITTED)
    assert {path.name: path.read_bytes() for path in (tmp_path / "log").iterdir()} == before


@pytest.mark.parametrize("batch", [5, FIRST_SEGMENT - 1])
@pytest.mark.parametrize("kept_bytes", [0, 30, 100])
@pytest.mark.parametrize("finder", ["a read", "a sender"])
def test_readers_are_told_of_a_data_file_that_was_cut_while_the_broker_runs(
    tmp_path: Path, batch: int, kept_bytes: int, finder: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Once: others got an answer that ended in the middle, for ever."""
    caplog.set_level(logging.WARNING)
    log = open_log(tmp_path / "log", CONFIG)
    positions = []
    for number in range(BATCHES):
        if number == FIRST_SEGMENT:
            log.roll(NOW_MS)
        positions.append(log.segments.active.size_bytes)
        append(log, [b"value" * 4] * RECORDS)
    assert readable(log) == list(range(END))
    first, cut_at = log.segments.first, positions[batch] + kept_bytes
    assert first is not None
    with open(first.log.path, "r+b") as file:
        file.truncate(cut_at)
    data = log.read(0, 1 << 20, isolation=COMMITTED)
    assert data.slice is not None
    if finder == "a read":
        with pytest.raises(CorruptLogError, match="ends within a slice"):
            data.slice.read()
    else:
        data.slice.note_end(cut_at)
    data.slice.release()
    lost = set(range(batch * RECORDS, FIRST_SEGMENT * RECORDS))
    for _ in range(2):
        assert readable(log) == [offset for offset in range(END) if offset not in lost]
    assert caplog.text.count("event=data-file-cut") == 1
    assert caplog.text.count("event=records-damaged") == 1


def test_records_are_read_behind_the_cut_end_of_the_active_data_file(tmp_path: Path) -> None:
    """Appends go on where the file should end."""
    log = open_log(tmp_path / "log", CONFIG)
    for _ in range(3):
        append(log, [b"value" * 4] * RECORDS)
    active = log.segments.active
    with open(active.log.path, "r+b") as file:
        file.truncate(active.size_bytes - 10)
    with pytest.raises(CorruptLogError):
        read_bytes(log, 0, 1 << 20, isolation=COMMITTED)
    for _ in range(2):
        append(log, [b"value" * 4] * RECORDS)
    kept = [*range(20), *range(30, 50)]
    assert readable(log, 50) == kept

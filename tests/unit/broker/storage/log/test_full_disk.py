"""A directory that has no room for a name: what is left half done must be found by nobody."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from seglog.broker.storage.cleaner.candidates import look_at, make_plan
from seglog.broker.storage.cleaner.cleaner import Cleaner
from seglog.broker.storage.cleaner.plan import SegmentSwap
from seglog.broker.storage.errors import DiskFullError, FileError
from seglog.broker.storage.files.layout import CLEANED_SUFFIX
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.segment.segment import LogSegment
from support.exchanges import replace_segments
from support.faulty_file_system import FaultyFileSystem
from support.log_builder import (
    KEEP,
    NOW_MS,
    append,
    base_offsets,
    flush_log,
    names_in,
    offsets_of,
    open_log,
    read_all,
)

COMPACTED = replace(KEEP, cleanup_policy=frozenset({"compact"}))


def compact(log: Log, disk: FaultyFileSystem) -> None:
    """One pass, as the log cleaner makes it."""

    def hand_over(swap: SegmentSwap) -> None:
        new = [
            LogSegment.open(disk, log.directory, base, log.config, NOW_MS, suffix=CLEANED_SUFFIX)
            for base in swap.new_base_offsets
        ]
        found = [log.segments.get(base) for base in swap.old_base_offsets]
        present = [each for each in found if each is not None]
        for segment in replace_segments(log, new, present):
            segment.delete_files()

    plan = make_plan(log, look_at(log, None, NOW_MS), NOW_MS)
    cleaner = Cleaner(disk, map_bytes=1 << 12, map_load_factor=0.9, buffer_bytes=1 << 12)
    cleaner.clean(plan, account=lambda _: None, hand_over=hand_over)


def dirty_log(folder: Path, disk: FaultyFileSystem) -> Log:
    """Three sealed segments; of the last one nothing stays, so that its end has to be marked."""
    log = open_log(folder, COMPACTED, file_system=disk)
    for keys in ([b"a", b"b"], [b"a", b"c"], [b"d"], [b"d", b"b"]):
        for key in keys:
            append(log, keys=[key])
        log.roll(NOW_MS)
    flush_log(log)
    return log


COMPACT_CONTENT = [2, 3, 5, 6]


@pytest.mark.parametrize("number", range(12))
def test_the_files_of_a_failed_exchange_are_taken_for_those_of_the_next(
    tmp_path: Path, number: int
) -> None:
    """C028, SEG-6: one of the renames finds no room; the next pass and the next start are right."""
    disk = FaultyFileSystem()
    log = dirty_log(tmp_path / "log", disk)
    before = offsets_of(read_all(log))
    disk.calls.fail("rename", error=errno.ENOSPC, skip=number)
    try:
        compact(log, disk)
    except DiskFullError:
        assert offsets_of(read_all(log)) == before
        assert not [
            name for name in names_in(log.directory) if name.endswith((".swap", ".cleaned"))
        ]
        disk.calls.heal()
        compact(log, disk)
    except FileError:
        # Too late to go back: the directory is offline now, and the next start finishes it.
        disk.calls.heal()
        log.abandon()
        log = open_log(tmp_path / "log", COMPACTED, clean=True)
    assert offsets_of(read_all(log)) == COMPACT_CONTENT
    log.close()
    again = open_log(tmp_path / "log", COMPACTED, clean=True)
    assert offsets_of(read_all(again)) == COMPACT_CONTENT


def test_a_pass_goes_on_with_files_that_another_one_could_not_remove(tmp_path: Path) -> None:
    """SEG-8: it would begin with what the other had copied."""
    disk = FaultyFileSystem()
    log = dirty_log(tmp_path / "log", disk)
    folder = Path(log.directory)
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        source = folder / f"{0:020d}{suffix}"
        content = source.read_bytes() if source.exists() else b""
        (folder / f"{0:020d}{suffix}.cleaned").write_bytes(content)
    compact(log, disk)
    assert offsets_of(read_all(log)) == COMPACT_CONTENT


def test_retention_cannot_begin_for_want_of_room(tmp_path: Path) -> None:
    """C028, RET-3: all is too old, and there is no room for the segment that comes last."""
    disk = FaultyFileSystem()
    log = open_log(tmp_path / "log", replace(KEEP, retention_ms=1000), file_system=disk)
    for _ in range(3):
        append(log)
        log.roll(NOW_MS)
    append(log)
    later_ms = NOW_MS + 5000
    disk.calls.fail("create", error=errno.ENOSPC, times=None)
    doomed = [segment for segment, _ in log.deletable_segments(later_ms)]
    assert len(doomed) == 4
    removed = log.delete_segments(doomed, later_ms)
    assert [segment.base_offset for segment in removed] == [0, 1, 2]
    assert base_offsets(log) == [3]
    assert log.delete_segments([log.segments.active], later_ms) == []
    disk.calls.heal()
    doomed = [segment for segment, _ in log.deletable_segments(later_ms)]
    log.delete_segments(doomed, later_ms)
    assert base_offsets(log) == [4]
    assert append(log).first_offset == 4

"""An exchange of segments, cut at every change, on a disk where names arrive in any order."""

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.log.exchange import ExchangeUnderWayError
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.segment.segment import LogSegment
from seglog.broker.storage.segment.transaction_index import AbortedTransaction
from support.disk_model import Cut
from support.examples import first_ones_fast
from support.exchanges import replace_segments
from support.log_builder import (
    KEEP,
    NOW_MS,
    append,
    append_many,
    flush_log,
    names_in,
    offsets_of,
    open_log,
    read_all,
)
from support.recording_file_system import RecordingFileSystem
from support.segment_builder import append as append_to_segment
from support.segment_builder import batch as stored_batch

SMALL = replace(KEEP, segment_bytes=350, index_interval_bytes=150, segment_index_bytes=1200)
COMPACTED = replace(SMALL, cleanup_policy=frozenset({"compact"}))
RECORDS = 24
ABORTED = AbortedTransaction(7, 1, 1, 2)


def cleaned(
    file_system: OsFileSystem, log: Log, base_offset: int, offsets: list[int]
) -> LogSegment:
    """What a cleaner hands over: content on disk, names not; the first one has an aborted batch."""
    segment = LogSegment.create(
        file_system, log.directory, base_offset, SMALL, NOW_MS, suffix=".cleaned"
    )
    append_to_segment(segment, *(stored_batch(offset) for offset in offsets))
    if base_offset == 0:
        segment.transaction_index.append(ABORTED)
    segment.on_become_inactive()
    segment.flush()
    return segment


@pytest.mark.parametrize("parts", first_ones_fast(1, [1, 2, 3]))
def test_names_of_an_exchange_reach_the_disk_in_any_order(tmp_path: Path, parts: int) -> None:
    """S12, SEG-6: all old or all new; new ones with what their transaction index says."""
    root = tmp_path / "disk"
    (root / "log").mkdir(parents=True)
    disk = RecordingFileSystem(root)
    log = open_log(root / "log", SMALL, file_system=disk)
    append_many(log, RECORDS)
    flush_log(log)
    sources = log.segments.sealed()
    second, third = sources[1].base_offset, sources[2].base_offset
    kept = [(0, [1]), (second, [second + 1]), (third, [third + 1])][:parts]
    old = list(range(RECORDS))
    new = [offset for _, offsets in kept for offset in offsets]
    new += range(log.segments.active.base_offset, RECORDS)
    assert sources[-1].base_offset > kept[-1][1][-1], "there has to be an end mark"
    compacted = [cleaned(disk, log, base_offset, offsets) for base_offset, offsets in kept]
    start = len(disk.changes)
    for segment in replace_segments(log, compacted, sources):
        segment.delete_files()
    seen = set()
    for change in range(start, len(disk.changes) + 1):
        for seed in range(3):
            cut = Cut(random.Random(seed), names_in_order=False)
            left = disk.after_power_cut(tmp_path / "after", changes=change, keep=cut)
            again = open_log(left / "log", COMPACTED, recovery_point=RECORDS)
            found = offsets_of(read_all(again))
            assert found in (old, new), (change, seed)
            first = next(iter(again.segments))
            assert (ABORTED in first.transaction_index.all()) == (found == new), (change, seed)
            assert not names_in(left / "log", ".swap") + names_in(left / "log", ".cleaned")
            seen.add(tuple(found))
            again.abandon()
            shutil.rmtree(left)
    assert seen == {tuple(old), tuple(new)}


def test_nothing_takes_the_sources_of_an_exchange_away(tmp_path: Path) -> None:
    """SEG-7, T10: what they lost would be back after a power cut; appends go on."""
    log = open_log(tmp_path / "log", SMALL)
    append_many(log, RECORDS)
    sources = log.segments.sealed()[:2]
    exchange = log.begin_exchange([cleaned(OsFileSystem(), log, 0, [1])], sources)
    assert exchange is not None
    exchange.announce()
    for step in exchange.steps():
        log.delete_records_before(sources[1].base_offset)
        doomed = [segment for segment, _ in log.deletable_segments(NOW_MS)]
        assert log.delete_segments(doomed, NOW_MS) == []
        with pytest.raises(ExchangeUnderWayError):
            log.begin_truncation(1, NOW_MS)
        with pytest.raises(ExchangeUnderWayError):
            log.begin_restart(1, NOW_MS)
        append(log)
        step()
        exchange.sync()
    log.end_exchange(exchange)
    assert log.segments.first is not sources[0]
    log.delete_records_before(log.segments.active.base_offset)
    doomed = [segment for segment, _ in log.deletable_segments(NOW_MS)]
    assert doomed
    assert log.delete_segments(doomed, NOW_MS) == doomed

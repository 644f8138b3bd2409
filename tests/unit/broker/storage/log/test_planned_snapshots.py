"""Snapshots of producers are written by the flush that follows a roll, in its thread (S10)."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from seglog.broker.storage.errors import DeferredReadError
from seglog.broker.storage.log import producer_snapshot_files
from seglog.broker.storage.log.flush_ticket import FlushTicket
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.log.producer_entry import ProducerEntry
from seglog.broker.storage.log.producer_snapshot import decode_snapshot, encode_snapshot
from support.faulty_file_system import FaultyFileSystem
from support.log_builder import (
    NOW_MS,
    append,
    append_many,
    names_in,
    open_log,
    reopen,
    truncate,
)

PRODUCERS = 520


@pytest.fixture
def encoded_in(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that have encoded an entry of a producer, one for each entry."""
    threads: list[int] = []

    def encode(entries: Sequence[ProducerEntry]) -> bytes:
        threads.extend(threading.get_ident() for _ in entries)
        return encode_snapshot(entries)

    monkeypatch.setattr(producer_snapshot_files, "encode_snapshot", encode)
    return threads


def log_of_many(tmp_path: Path, file_system: FaultyFileSystem | None = None) -> Log:
    log = open_log(tmp_path / "log", file_system=file_system)
    for producer_id in range(PRODUCERS):
        append(log, producer_id=producer_id, sequence=0)
    return log


def run_in_a_thread(ticket: FlushTicket) -> int:
    thread = threading.Thread(target=ticket.run)
    thread.start()
    thread.join()
    assert thread.ident is not None
    return thread.ident


def flush_below_the_active_segment(log: Log) -> int:
    """What follows a roll; the thread that it ran in."""
    ticket = log.begin_flush(log.segments.active.base_offset)
    thread = run_in_a_thread(ticket)
    log.finish_flush(ticket)
    return thread


def snapshots(log: Log) -> list[str]:
    return names_in(log.directory, ".snapshot")


def stored(log: Log, offset: int) -> dict[int, int]:
    content = (Path(log.directory) / f"{offset:020d}.snapshot").read_bytes()
    return {each.producer_id: each.last_sequence for each in decode_snapshot(content)}


def test_roll_does_no_work_for_each_producer(tmp_path: Path, encoded_in: list[int]) -> None:
    log = log_of_many(tmp_path)
    log.roll(NOW_MS)
    assert encoded_in == []
    assert snapshots(log) == []
    thread = flush_below_the_active_segment(log)
    assert encoded_in == [thread] * PRODUCERS
    assert snapshots(log) == [f"{PRODUCERS:020d}.snapshot"]
    assert log.offsets.recovery_point == PRODUCERS


def test_snapshot_is_that_of_the_roll_whatever_producers_do_meanwhile(tmp_path: Path) -> None:
    log = log_of_many(tmp_path)
    log.roll(NOW_MS)
    ticket = log.begin_flush()
    append(log, producer_id=3, sequence=1)
    append(log, producer_id=PRODUCERS, sequence=0)
    log.producer_state.expire(NOW_MS + log.producer_state.expiration_ms)
    run_in_a_thread(ticket)
    log.finish_flush(ticket)
    assert stored(log, PRODUCERS) == dict.fromkeys(range(PRODUCERS), 0)


def test_only_producers_that_go_on_after_a_roll_are_copied(tmp_path: Path) -> None:
    log = log_of_many(tmp_path)
    producers = log.producer_state
    before = list(producers)
    log.roll(NOW_MS)
    append(log, producer_id=3, sequence=1)
    after = list(producers)
    assert [number for number in range(PRODUCERS) if after[number] is not before[number]] == [3]
    copied = producers.get(3)
    append(log, producer_id=3, sequence=2)
    assert producers.get(3) is copied
    assert append(log, producer_id=3, sequence=1).is_duplicate


def test_kill_before_the_snapshot_is_written_costs_a_scan(tmp_path: Path) -> None:
    log = log_of_many(tmp_path)
    log.roll(NOW_MS)
    append_many(log, 2)
    before = list(log.producer_state)
    again = reopen(log, clean=False)
    assert [each.producer_id for each in again.producer_state] == [
        each.producer_id for each in before
    ]
    assert append(again, producer_id=7, sequence=0).is_duplicate


def test_clean_stop_leaves_the_snapshots_that_were_planned(tmp_path: Path) -> None:
    log = log_of_many(tmp_path)
    log.roll(NOW_MS)
    append(log, producer_id=1, sequence=1)
    before = list(log.producer_state)
    again = reopen(log, clean=True)
    assert list(again.producer_state) == before
    assert snapshots(again) == [f"{PRODUCERS:020d}.snapshot", f"{PRODUCERS + 1:020d}.snapshot"]


def test_full_disk_costs_the_snapshot_and_not_the_flush(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    log = log_of_many(tmp_path, disk)
    log.roll(NOW_MS)
    disk.calls.fail("write", error=28, path_part=".snapshot")
    flush_below_the_active_segment(log)
    assert snapshots(log) == []
    assert names_in(log.directory, ".window") == []
    assert log.offsets.recovery_point == PRODUCERS


def test_few_producers_are_written_at_once(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    append(log, producer_id=1, sequence=0)
    log.roll(NOW_MS)
    assert stored(log, 1) == {1: 0}


def test_segments_wait_for_the_snapshot_that_knows_their_producers(tmp_path: Path) -> None:
    """IDEM-14: a kill before it is written would forget them with their records."""
    log = log_of_many(tmp_path)
    log.roll(NOW_MS)
    doomed = list(log.segments)[:1]
    with pytest.raises(DeferredReadError) as deferred:
        log.delete_segments(doomed, NOW_MS)
    assert log.offsets.log_start == 0
    deferred.value.work()()
    assert log.delete_segments(doomed, NOW_MS) == doomed
    again = reopen(log, clean=False)
    assert append(again, producer_id=7, sequence=0).is_duplicate


def test_snapshot_above_a_cut_goes_when_its_writer_is_done(tmp_path: Path) -> None:
    log = log_of_many(tmp_path)
    append_many(log, 1)
    log.roll(NOW_MS)
    ticket = log.begin_flush()
    truncate(log, PRODUCERS)
    run_in_a_thread(ticket)
    assert snapshots(log) == [f"{PRODUCERS + 1:020d}.snapshot"]
    log.finish_flush(ticket)
    assert snapshots(log) == []


def test_snapshot_is_synced_before_the_recovery_point_moves(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    log = log_of_many(tmp_path, disk)
    log.roll(NOW_MS)
    disk.calls.fail("sync", path_part=".snapshot")
    ticket = log.begin_flush()
    with pytest.raises(Exception, match="sync"):
        ticket.run()
    log.finish_flush(ticket)
    assert log.offsets.recovery_point == 0

"""Appending to a log, rolling its segments, and its bounds."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from seglog.broker.storage.errors import DiskFullError, FileError, OffsetOutOfRangeError
from seglog.broker.storage.log.append import prepare_append
from seglog.broker.storage.log.log import FetchIsolation, Log
from seglog.broker.storage.segment.transaction_index import AbortedTransaction
from seglog.config.log_config import LogConfig
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.batch import iter_batches
from seglog.protocol.records.builder import build_batch
from support.faulty_file_system import FaultyFileSystem
from support.log_builder import (
    DAY_MS,
    KEEP,
    NOW_MS,
    append,
    append_many,
    base_offsets,
    end_transaction,
    flush_log,
    names_in,
    offsets_of,
    open_log,
    read_all,
    read_bytes,
    reopen,
)

COMPACT = replace(KEEP, cleanup_policy=frozenset({"compact"}))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path / "log")


def test_offsets_follow_each_other_without_hole(log: Log) -> None:
    """APP-16."""
    first = append(log, [b"a", b"b", b"c"])
    second = append(log, [b"d"])
    assert (first.first_offset, first.last_offset, first.record_count) == (0, 2, 3)
    assert (second.first_offset, second.last_offset) == (3, 3)
    assert [record.value for record in read_all(log)] == [b"a", b"b", b"c", b"d"]
    assert offsets_of(read_all(log)) == [0, 1, 2, 3]


def test_stored_bytes_are_the_received_ones_but_for_offset_and_epoch(log: Log) -> None:
    """APP-17, APP-18, INV-4."""
    batch = build_batch([(NOW_MS, b"k", b"v", ())])
    received = bytes(batch)
    append(log)
    log.append(memoryview(batch), now_ms=NOW_MS, leader_epoch=7)
    stored = next(iter_batches(read_bytes(log, 1)))
    assert bytes(stored.view[16:]) == received[16:]
    assert stored.header.base_offset == 1
    assert stored.header.partition_leader_epoch == 7
    assert bytes(stored.view) == bytes(batch)


def test_append_may_be_prepared_elsewhere(log: Log) -> None:
    batch = memoryview(build_batch([(NOW_MS, b"k", b"v", ())]))
    prepared = prepare_append(batch, log.config, NOW_MS)
    append(log)
    assert log.append_prepared(prepared, now_ms=NOW_MS, leader_epoch=0).first_offset == 1


@pytest.mark.parametrize("position", [17, 60, -1])
def test_refused_batch_leaves_nothing(log: Log, position: int) -> None:
    """APP-3, IDEM-15."""
    append(log)
    size = log.segment_bytes_total
    batch = build_batch([(NOW_MS, b"k", b"v", ())])
    batch[position] ^= 0xFF
    with pytest.raises(RecordError):
        log.append(memoryview(batch), now_ms=NOW_MS, leader_epoch=3)
    assert log.segment_bytes_total == size == os.path.getsize(log.segments.active.log.path)
    assert log.offsets.log_end == 1
    assert log.leader_epochs.latest_epoch == 0


def test_each_epoch_is_registered_where_it_starts(log: Log) -> None:
    """EPOCH-7."""
    append(log, [b"a", b"b"], leader_epoch=0)
    append(log, leader_epoch=0)
    append(log, leader_epoch=4)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0), (4, 3)]


def test_duplicate_is_answered_with_the_stored_offsets_and_not_written(log: Log) -> None:
    """IDEM-2."""
    append(log)
    original = append(log, [b"a", b"b"], producer_id=7, sequence=0)
    size = log.segment_bytes_total
    again = append(log, [b"a", b"b"], producer_id=7, sequence=0)
    assert again.is_duplicate
    assert (again.first_offset, again.last_offset) == (original.first_offset, original.last_offset)
    assert log.segment_bytes_total == size
    assert log.offsets.log_end == 3


def test_duplicate_on_stamped_topic_reports_the_original_time(tmp_path: Path) -> None:
    """IDEM-2, TS-6."""
    log = open_log(tmp_path / "log", replace(KEEP, message_timestamp_type="LogAppendTime"))
    first = append(log, producer_id=7, sequence=0, now_ms=NOW_MS + 5)
    again = append(log, producer_id=7, sequence=0, now_ms=NOW_MS + 99)
    assert first.log_append_time_ms == again.log_append_time_ms == NOW_MS + 5


def test_failed_write_leaves_offsets_and_producers_as_they_were(tmp_path: Path) -> None:
    """IDEM-15, C028: after the disk has room again the same batch is accepted."""
    disk = FaultyFileSystem()
    log = open_log(tmp_path / "log", file_system=disk)
    append(log, producer_id=7, sequence=0)
    disk.calls.fail("write", error=errno.ENOSPC)
    with pytest.raises(DiskFullError):
        append(log, producer_id=7, sequence=1)
    assert log.offsets.log_end == 1
    assert not append(log, producer_id=7, sequence=1).is_duplicate
    assert offsets_of(read_all(log)) == [0, 1]


def test_roll_that_finds_no_space_leaves_the_old_segment_in_use(tmp_path: Path) -> None:
    """C028."""
    disk = FaultyFileSystem()
    log = open_log(tmp_path / "log", replace(KEEP, segment_bytes=1000), file_system=disk)
    append_many(log, 5)
    disk.calls.fail("create", "allocate", error=errno.ENOSPC, times=None)
    for _ in range(3):
        with pytest.raises(DiskFullError):
            append_many(log, 1)
    disk.calls.heal()
    assert base_offsets(log) == [0]
    append_many(log, 6)
    assert offsets_of(read_all(log)) == list(range(11))
    assert base_offsets(log) == [0, 5, 10]


def test_roll_that_fails_leaves_no_segment_to_hide_later_records(tmp_path: Path) -> None:
    """C028: a start would take records that went on in the old one for damage, and drop them."""
    disk = FaultyFileSystem()
    log = open_log(tmp_path / "log", file_system=disk)
    append_many(log, 5)
    disk.calls.fail(path_part="0.index")
    with pytest.raises(FileError):
        log.roll(NOW_MS)
    assert names_in(log.directory, ".log") == ["00000000000000000000.log"]
    disk.calls.heal()
    append_many(log, 3)
    log.roll(NOW_MS)
    append_many(log, 1)
    for clean in (True, False):
        log = reopen(log, clean=clean)
        assert offsets_of(read_all(log)) == list(range(9))


@pytest.mark.parametrize("full", [".txnindex", ".log"])
def test_a_full_disk_parts_an_abort_from_its_index_entry(tmp_path: Path, full: str) -> None:
    """APP-25: nothing is written then, and later both; a clean restart must not show the data."""
    disk = FaultyFileSystem()
    log = open_log(tmp_path / "log", file_system=disk)
    append(log, producer_id=7, sequence=0, transactional=True)
    disk.calls.fail("write", error=errno.ENOSPC, path_part=full)
    with pytest.raises(DiskFullError):
        end_transaction(log, 7, commit=False)
    disk.calls.heal()
    assert log.offsets.log_end == 1
    assert log.aborted_transactions(0, 2) == []
    assert log.producer_state.transactions.in_order() == [(7, 0)]
    end_transaction(log, 7, commit=False)
    for clean in (True, False):
        log.set_high_watermark(2)
        assert log.offsets.last_stable == 2
        [aborted] = log.aborted_transactions(0, 2)
        assert aborted[:3] == (7, 0, 1)
        log = reopen(log, clean=clean)


def test_an_index_entry_stays_whose_marker_was_never_written(tmp_path: Path) -> None:
    """APP-25: a kill between the two; what is then committed must not be hidden."""
    log = open_log(tmp_path / "log")
    append(log, producer_id=7, sequence=0, transactional=True)
    flush_log(log)
    log.segments.active.transaction_index.append(AbortedTransaction(7, 0, 1, 2))
    log = reopen(log, clean=False)
    end_transaction(log, 7, commit=True)
    assert log.aborted_transactions(0, 2) == []


# ---- rolling


def test_segment_is_filled_to_its_limit_and_not_beyond(tmp_path: Path) -> None:
    """ROLL-13, ROLL-14."""
    probe = open_log(tmp_path / "probe")
    append_many(probe, 1)
    one = probe.segment_bytes_total
    log = open_log(tmp_path / "log", replace(KEEP, segment_bytes=3 * one))
    append_many(log, 7)
    assert base_offsets(log) == [0, 3, 6]
    assert [segment.size_bytes for segment in log.segments] == [3 * one, 3 * one, one]
    assert offsets_of(read_all(log)) == list(range(7))


def test_rolled_segment_is_trimmed_and_its_successor_has_a_snapshot(tmp_path: Path) -> None:
    """ROLL-8, ROLL-9."""
    log = open_log(tmp_path / "log", replace(KEEP, segment_bytes=1000, index_interval_bytes=100))
    append_many(log, 6, step_ms=10)
    names = names_in(tmp_path / "log")
    assert "00000000000000000005.snapshot" in names
    sealed, active = list(log.segments)
    assert os.path.getsize(sealed.offset_index.path) == sealed.offset_index.size_bytes
    assert sealed.time_index.last_entry[:2] == (NOW_MS + 40, 4)
    assert os.path.getsize(active.offset_index.path) == 10 * 1024 * 1024


def test_tiny_segments_are_legal(tmp_path: Path) -> None:
    """Kafka 3's floor: segment.bytes of a single batch."""
    log = open_log(tmp_path / "log", replace(KEEP, segment_bytes=90))
    for _ in range(5):
        append(log, [b"v"])
    assert base_offsets(log) == [0, 1, 2, 3, 4]
    with pytest.raises(RecordError) as refusal:
        append(log, [bytes(100)])
    assert refusal.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_full_index_rolls(tmp_path: Path) -> None:
    """ROLL-1c."""
    config = replace(KEEP, index_interval_bytes=0, segment_index_bytes=48)
    log = open_log(tmp_path / "log", config)
    append_many(log, 20, step_ms=1)
    assert len(log.segments) > 3
    assert offsets_of(read_all(log)) == list(range(20))


@pytest.mark.parametrize("index_bytes", [4, 8, 12, 24])
def test_an_index_without_room_gives_each_record_a_segment(
    tmp_path: Path, index_bytes: int
) -> None:
    """IDX-8, C003: one entry fits in any case, so that a segment gets as large as an interval."""
    log = open_log(tmp_path / "log", replace(KEEP, segment_index_bytes=index_bytes))
    for _ in range(20):
        append(log, [bytes(1000)])
    assert len(log.segments) <= 4
    log.close()
    log = open_log(tmp_path / "log", replace(KEEP, segment_index_bytes=index_bytes))
    append(log)
    assert offsets_of(read_all(log)) == list(range(21))


def test_roll_on_request_keeps_an_empty_segment(log: Log) -> None:
    """ROLL-12."""
    empty = log.segments.active
    assert log.roll(NOW_MS) is empty
    append(log)
    assert log.roll(NOW_MS).base_offset == 1
    assert log.roll(NOW_MS).base_offset == 1
    assert base_offsets(log) == [0, 1]


def test_leftover_files_of_the_new_name_are_removed(log: Log, tmp_path: Path) -> None:
    """ROLL-11."""
    append(log)
    for suffix in (".log", ".index", ".txnindex"):
        (tmp_path / "log" / f"{1:020d}{suffix}").write_bytes(b"left behind")
    log.roll(NOW_MS)
    append(log)
    assert offsets_of(read_all(log)) == [0, 1]
    assert log.aborted_transactions(0, 2) == []


@pytest.mark.parametrize(
    "stamps",
    [
        pytest.param([NOW_MS - 30 * DAY_MS] * 500, id="all 30 days old"),
        pytest.param([NOW_MS - index % 2 * 30 * DAY_MS for index in range(500)], id="alternating"),
    ],
)
def test_old_timestamps_do_not_roll_for_every_batch(tmp_path: Path, stamps: list[int]) -> None:
    """C003 A and C."""
    log = open_log(tmp_path / "log", replace(KEEP, segment_ms=3_600_000))
    for number, stamp in enumerate(stamps):
        append(log, timestamps_ms=stamp, now_ms=NOW_MS + number)
    assert len(log.segments) <= 2
    assert offsets_of(read_all(log)) == list(range(500))


def test_ascending_old_timestamps_roll_at_most_once_a_second(tmp_path: Path) -> None:
    """C003 B: 500 batches one day apart, written within 2.5 s."""
    log = open_log(tmp_path / "log", replace(KEEP, segment_ms=3_600_000))
    for number in range(500):
        stamp = NOW_MS - (499 - number) * DAY_MS
        append(log, timestamps_ms=stamp, now_ms=NOW_MS + 5 * number)
    assert len(log.segments) == 3
    assert offsets_of(read_all(log)) == list(range(500))


def test_quiet_compacted_log_is_rolled_by_the_clock(tmp_path: Path) -> None:
    """C024, CLN-16."""
    log = open_log(tmp_path / "log", replace(COMPACT, max_compaction_lag_ms=2000))
    assert not log.roll_if_overdue_for_compaction(NOW_MS + 9000)
    append(log)
    assert not log.roll_if_overdue_for_compaction(NOW_MS + 2000)
    assert log.roll_if_overdue_for_compaction(NOW_MS + 2001)
    assert not log.roll_if_overdue_for_compaction(NOW_MS + 9000)
    assert base_offsets(log) == [0, 1]
    control = open_log(tmp_path / "control", COMPACT)
    append(control)
    assert not control.roll_if_overdue_for_compaction(NOW_MS + 365 * DAY_MS)


# ---- bounds


def test_nothing_is_shown_before_the_high_watermark_moves(log: Log) -> None:
    """HW-5: the log itself never assumes that it is at the log end."""
    append(log, committed=False)
    committed = FetchIsolation.HIGH_WATERMARK
    assert read_bytes(log, 0, isolation=committed) == b""
    assert log.set_high_watermark(1)
    assert not log.set_high_watermark(1)
    assert read_bytes(log, 0, isolation=committed) != b""


def test_last_stable_offset_waits_for_the_transaction_and_the_high_watermark(log: Log) -> None:
    """TXN-8, TXN-9, HW-6."""
    append(log)
    append(log, [b"a", b"b"], producer_id=7, sequence=0, transactional=True)
    append(log)
    assert log.offsets.last_stable == 1
    end_transaction(log, 7, commit=True, committed=False)
    assert log.offsets.last_stable == 1
    log.set_high_watermark(5)
    assert log.offsets.last_stable == 5


def test_delete_records_moves_the_log_start_and_no_file(log: Log) -> None:
    """DEL-1, DEL-2, DEL-6, DEL-10."""
    append_many(log, 10)
    size = log.segment_bytes_total
    assert log.delete_records_before(4) == 4
    assert log.delete_records_before(2) == 4
    with pytest.raises(OffsetOutOfRangeError) as error:
        read_bytes(log, 3)
    assert (error.value.log_start_offset, error.value.log_end_offset) == (4, 10)
    assert offsets_of(read_all(log)) == list(range(4, 10))
    assert log.segment_bytes_total == size
    assert log.delete_records_before(-1) == 10
    assert read_all(log) == []


def test_delete_records_beyond_the_high_watermark_is_refused(log: Log) -> None:
    """DEL-3."""
    append_many(log, 3)
    append(log, committed=False)
    for offset in (4, -2, 2**63 - 1):
        with pytest.raises(OffsetOutOfRangeError):
            log.delete_records_before(offset)
    assert log.offsets.log_start == 0


def test_emptied_log_with_open_transaction_answers_empty(log: Log) -> None:
    """C055, TXN-10."""
    append_many(log, 3)
    append(log, producer_id=7, sequence=0, transactional=True)
    assert log.offsets.last_stable == 3
    log.delete_records_before(3)
    assert read_bytes(log, 3, isolation=FetchIsolation.TXN_COMMITTED) == b""
    log.delete_records_before(4)
    assert log.offsets.last_stable == 4
    assert read_bytes(log, 4, isolation=FetchIsolation.TXN_COMMITTED) == b""


def test_config_change_reaches_the_open_log(log: Log) -> None:
    """MGR-5."""
    append_many(log, 5)
    log.update_config(LogConfig(segment_bytes=200))
    append_many(log, 2)
    assert base_offsets(log) == [0, 5, 6]


def test_expired_producers_are_forgotten(log: Log) -> None:
    """IDEM-13, C048."""
    append(log, producer_id=7, sequence=0)
    assert log.producer_state.expire(NOW_MS + DAY_MS - 1) == 0
    assert log.producer_state.expire(NOW_MS + DAY_MS) == 1
    assert append(log, producer_id=7, sequence=9).first_offset == 1
    with pytest.raises(RecordError) as refusal:
        append(log, producer_id=7, sequence=11)
    assert refusal.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_renamed_folder_is_written_to_under_its_new_name(log: Log, tmp_path: Path) -> None:
    """MGR-3."""
    append_many(log, 3)
    (tmp_path / "log").rename(tmp_path / "gone-delete")
    log.moved(str(tmp_path / "gone-delete"))
    append_many(log, 2)
    log.roll(NOW_MS)
    assert offsets_of(read_all(log)) == list(range(5))
    flush_log(log)
    log.delete()
    assert list(tmp_path.iterdir()) == []

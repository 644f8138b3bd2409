"""Opening a log after a clean stop and after a crash, and what damage it survives."""

import logging
import shutil
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from seglog.broker.storage.files.layout import segment_path
from seglog.broker.storage.log.log import FetchIsolation, Log
from seglog.protocol.errors import RecordError
from support.index_checks import entries_of
from support.log_builder import (
    DAY_MS,
    KEEP,
    NOW_MS,
    append,
    append_many,
    at_once,
    base_offsets,
    end_transaction,
    flush_log,
    names_in,
    offsets_of,
    open_log,
    read_all,
    reopen,
)
from support.segment_builder import batch as stored_batch

SMALL = replace(KEEP, segment_bytes=2000, index_interval_bytes=200)
END = FetchIsolation.LOG_END
INT31 = 2**31


def filled(directory: Path, count: int = 60) -> Log:
    """A log of several segments, one record per batch, stamped 10 ms apart."""
    log = open_log(directory, SMALL)
    append_many(log, count, step_ms=10)
    return log


def probe(log: Log, count: int) -> list[object]:
    """What readers see: all records, and the offset for each time."""
    return [
        offsets_of(read_all(log)),
        [
            at_once(
                partial(
                    log.offset_for_timestamp, NOW_MS + 5 * step, isolation=FetchIsolation.LOG_END
                )
            )
            for step in range(2 * count)
        ],
    ]


# ---- clean and unclean stops


def test_clean_restart_finds_everything_and_makes_no_file(tmp_path: Path) -> None:
    """REC-1, C032."""
    log = filled(tmp_path / "log")
    before = probe(log, 60)
    log = reopen(log, clean=True)
    names = names_in(log.directory)
    assert log.offsets.recovery_point == log.offsets.log_end == 60
    assert log.offsets.high_watermark == 0
    assert probe(log, 60) == before
    for _ in range(3):
        log = reopen(log, clean=True)
    log.close()
    assert names_in(log.directory) == names


def test_clean_restart_trusts_what_it_does_not_look_at(tmp_path: Path) -> None:
    """REC-1: a changed byte in a record is found by its reader, not at the start."""
    log = filled(tmp_path / "log")
    log.close()
    path = Path(segment_path(log.directory, 0, ".log"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 0xFF
    path.write_bytes(content)
    log = open_log(tmp_path / "log", SMALL, clean=True)
    assert log.offsets.log_end == 60


@pytest.mark.parametrize("recovery_point", [0, 1, 25, 59, 60, 10_000])
def test_recovery_keeps_every_whole_batch_wherever_it_begins(
    tmp_path: Path, recovery_point: int
) -> None:
    """REC-2, REC-7, INV-2: indexes come out as appends made them."""
    log = filled(tmp_path / "log")
    before = probe(log, 60)
    entries = [entries_of(segment.offset_index) for segment in log.segments]
    log.abandon()
    log = open_log(tmp_path / "log", SMALL, recovery_point=recovery_point)
    assert log.offsets.recovery_point == min(recovery_point, 60)
    assert probe(log, 60) == before
    assert [entries_of(segment.offset_index) for segment in log.segments] == entries
    append_many(log, 40, step_ms=10)
    assert offsets_of(read_all(log)) == list(range(100))


def test_recovery_is_idempotent(tmp_path: Path) -> None:
    """REC-3."""
    log = reopen(filled(tmp_path / "log"), clean=False)
    log = reopen(log, clean=True)
    first = {path.name: path.read_bytes() for path in Path(log.directory).iterdir()}
    log = reopen(log, clean=False)
    log = reopen(log, clean=True)
    assert {path.name: path.read_bytes() for path in Path(log.directory).iterdir()} == first


@pytest.mark.parametrize(
    "tail", [b"\0", bytes(60), bytes(61), bytes(4096), b"\x9c" * 4096, b"copy"]
)
def test_junk_behind_the_last_batch_is_cut(tmp_path: Path, tail: bytes) -> None:
    """C030, REC-16; "copy" is the last batch once more, whose offsets do not ascend."""
    log = open_log(tmp_path / "log")
    append_many(log, 10)
    log.abandon()
    path = Path(segment_path(log.directory, 0, ".log"))
    content = path.read_bytes()
    path.write_bytes(content + (content[-len(content) // 10 :] if tail == b"copy" else tail))
    log = open_log(tmp_path / "log")
    assert path.read_bytes() == content
    assert append(log).first_offset == 10


@pytest.mark.parametrize("tail", [b"\0", bytes(61), bytes(4096), b"torn", b"again"])
def test_torn_tail_after_a_clean_stop_is_appended_to(
    tmp_path: Path, tail: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """C030: the marker says that nothing has to be looked at; a cut file says otherwise."""
    log = filled(tmp_path / "log", 5)
    log.close()
    path = Path(segment_path(log.directory, 0, ".log"))
    content = path.read_bytes()
    size = len(content) // 5
    if tail == b"torn":
        path.write_bytes(content[:-7])
    else:
        path.write_bytes(content + (content[-size:] if tail == b"again" else tail))
    log = open_log(tmp_path / "log", SMALL, clean=True, recovery_point=5)
    log_end = 4 if tail == b"torn" else 5
    assert log.offsets.log_end == log_end
    assert append(log).first_offset == log_end
    assert offsets_of(read_all(log)) == list(range(log_end + 1))
    assert "event=torn-after-clean-stop" in caplog.text
    assert ("event=records-missing" in caplog.text) == (tail == b"torn")


def test_fault_in_the_middle_ends_the_log_there(tmp_path: Path) -> None:
    """REC-4: no later segment may follow a hole that nobody knows of."""
    log = filled(tmp_path / "log")
    second = log.segments.higher(0)
    assert second is not None
    log.abandon()
    path = Path(second.log.path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    log = open_log(tmp_path / "log", SMALL)
    assert second.base_offset < log.offsets.log_end < 30
    assert base_offsets(log) == [0, second.base_offset]
    assert offsets_of(read_all(log)) == list(range(log.offsets.log_end))
    assert max(int(name[:20]) for name in names_in(log.directory, ".snapshot")) <= 30


def test_fault_below_the_recovery_point_is_not_looked_for(tmp_path: Path) -> None:
    """REC-2: what was synced is trusted."""
    log = filled(tmp_path / "log")
    log.abandon()
    path = Path(segment_path(log.directory, 0, ".log"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 0xFF
    path.write_bytes(content)
    assert open_log(tmp_path / "log", SMALL, recovery_point=60).offsets.log_end == 60


def test_log_that_ends_below_its_start_begins_again_there(tmp_path: Path) -> None:
    """REC-9."""
    log = filled(tmp_path / "log")
    log.abandon()
    log = open_log(tmp_path / "log", SMALL, log_start=500)
    assert base_offsets(log) == [500]
    assert append(log).first_offset == 500


def test_log_start_survives_in_the_middle_of_a_segment(tmp_path: Path) -> None:
    """REC-10, DEL-8."""
    log = filled(tmp_path / "log")
    log.delete_records_before(7)
    for clean in (True, False):
        log = reopen(log, clean=clean)
        assert log.offsets.log_start == 7
        assert offsets_of(read_all(log)) == list(range(7, 60))


def test_deleted_and_temporary_files_are_removed(tmp_path: Path) -> None:
    """Storage-format 12, step 1."""
    log = filled(tmp_path / "log")
    log.close()
    names = names_in(log.directory)
    for name in (
        f"{0:020d}.log.deleted",
        f"{5:020d}.snapshot.deleted",
        "leader-epoch-checkpoint.tmp",
    ):
        (tmp_path / "log" / name).write_bytes(b"x")
    open_log(tmp_path / "log", SMALL, clean=True).close()
    assert names_in(log.directory) == names


# ---- damaged indexes


def entries_swapped(content: bytes, entry_bytes: int) -> bytes:
    middle = len(content) // entry_bytes // 2 * entry_bytes
    first, second = content[middle - entry_bytes : middle], content[middle : middle + entry_bytes]
    return content[: middle - entry_bytes] + second + first + content[middle + entry_bytes :]


DAMAGES: dict[str, Callable[[bytes, int], bytes | None]] = {
    "removed": lambda content, entry_bytes: None,
    "empty": lambda content, entry_bytes: b"",
    "13 bytes": lambda content, entry_bytes: content[:13],
    "filled with 0xFF": lambda content, entry_bytes: b"\xff" * len(content),
    "filled with zeros": lambda content, entry_bytes: bytes(len(content)),
    "last entry at the base offset": lambda content, entry_bytes: (
        content[:-entry_bytes] + bytes(entry_bytes)
    ),
    "two entries swapped": entries_swapped,
    "last position beyond the data": lambda content, entry_bytes: (
        content[:-4] + b"\x7f\xff\xff\xff"
    ),
}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_index_changes_no_answer(
    tmp_path: Path, damage: str, suffix: str, clean: bool
) -> None:
    """C026."""
    log = filled(tmp_path / "log")
    before = probe(log, 60)
    log.close()
    for path in sorted((tmp_path / "log").glob(f"*{suffix}")):
        damaged = DAMAGES[damage](path.read_bytes(), 8 if suffix == ".index" else 12)
        path.unlink() if damaged is None else path.write_bytes(damaged)
    log = open_log(tmp_path / "log", SMALL, clean=clean, recovery_point=60)
    assert probe(log, 60) == before
    append_many(log, 5, step_ms=10)
    assert offsets_of(read_all(log)) == list(range(65))


def test_missing_data_file_costs_its_records_only_and_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """C026, REC-8."""
    log = filled(tmp_path / "log")
    second, third = list(log.segments)[1:3]
    log.close()
    Path(second.log.path).unlink()
    with caplog.at_level(logging.WARNING):
        log = open_log(tmp_path / "log", SMALL, clean=True)
    kept = [*range(second.base_offset), *range(third.base_offset, 60)]
    assert offsets_of(read_all(log)) == kept
    [line] = [record.message for record in caplog.records if "data-file-missing" in record.message]
    assert f"first_missing_offset={second.base_offset}" in line
    assert f"next_offset_present={third.base_offset}" in line
    assert names_in(log.directory, f"{second.base_offset:020d}.index") == []


@pytest.mark.parametrize(("clean", "recovery_point"), [(True, 60), (False, 60), (False, None)])
def test_data_file_of_no_bytes_costs_its_records_only(
    tmp_path: Path, clean: bool, recovery_point: int | None
) -> None:
    """C026: below the recovery point, or where nobody knows what that was."""
    log = filled(tmp_path / "log")
    second, third = list(log.segments)[1:3]
    log.close()
    Path(second.log.path).write_bytes(b"")
    log = open_log(tmp_path / "log", SMALL, clean=clean, recovery_point=recovery_point)
    assert offsets_of(read_all(log)) == [*range(second.base_offset), *range(third.base_offset, 60)]


def test_damaged_transaction_index_is_rebuilt(tmp_path: Path) -> None:
    """Storage-format 12, step 4; TXN-14."""
    log = open_log(tmp_path / "log", SMALL)
    append(log, producer_id=7, sequence=0, transactional=True)
    end_transaction(log, 7, commit=False)
    log.roll(NOW_MS)
    append(log, producer_id=7, sequence=1, transactional=True)
    end_transaction(log, 7, commit=False)
    log.roll(NOW_MS)
    aborted = log.aborted_transactions(0, 4)
    assert len(aborted) == 2
    log.close()
    for path in (tmp_path / "log").glob("*.txnindex"):
        path.write_bytes(path.read_bytes()[:-1])
    log = open_log(tmp_path / "log", SMALL, clean=True)
    assert log.aborted_transactions(0, 4) == aborted


# ---- damaged checkpoints


@pytest.mark.parametrize("content", [b"", bytes(12), b"0\n2\n0 0\n", b"99\n1\n0 0\n"])
@pytest.mark.parametrize("clean", [True, False])
def test_damaged_leader_epoch_checkpoint_is_rebuilt_from_the_batches(
    tmp_path: Path, content: bytes, clean: bool
) -> None:
    """C029."""
    log = open_log(tmp_path / "log", SMALL)
    for epoch in (0, 0, 3, 8):
        append(log, leader_epoch=epoch)
        log.roll(NOW_MS)
    log.close()
    (tmp_path / "log" / "leader-epoch-checkpoint").write_bytes(content)
    log = open_log(tmp_path / "log", SMALL, clean=clean, recovery_point=4)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0), (3, 2), (8, 3)]


def set_epoch(log: Log, offset: int, epoch: int) -> None:
    """Change the leader epoch of a batch of one record; its checksum stays right."""
    segment = log.segments.floor(offset)
    assert segment is not None
    extent = segment.translate(offset)
    assert extent is not None
    path = Path(segment.log.path)
    content = bytearray(path.read_bytes())
    struct.pack_into(">i", content, extent.position + 12, epoch)
    path.write_bytes(content)


@pytest.mark.parametrize("offset", [0, 7, 20, 59])
def test_leader_epoch_that_nobody_can_have_led_in_is_not_believed(
    tmp_path: Path, offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    """S14: it has no checksum; the epochs that are possible are on disk before they are used."""
    log = filled(tmp_path / "log")
    flush_log(log)
    set_epoch(log, offset, 1_000_000)
    log.abandon()
    log = open_log(tmp_path / "log", SMALL, leader_epoch_floor=0)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0)]
    assert f"event=leader-epoch-not-believed path={log.directory}" in caplog.text


def test_epochs_up_to_the_floor_are_found_in_the_batches(tmp_path: Path) -> None:
    """REC-11, S5: the file lacks what was begun at the last start."""
    log = filled(tmp_path / "log", 3)
    flush_log(log)
    append(log, leader_epoch=2)
    log.abandon()
    log = open_log(tmp_path / "log", SMALL, leader_epoch_floor=2)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0), (2, 3)]


@pytest.mark.parametrize("clean", [True, False])
def test_rebuilt_epochs_leave_out_one_that_falls_back(tmp_path: Path, clean: bool) -> None:
    """S14, C029."""
    log = open_log(tmp_path / "log", SMALL)
    for epoch in (0, 0, 0, 3, 3):
        append(log, leader_epoch=epoch)
    set_epoch(log, 1, 77)
    log.close()
    (tmp_path / "log" / "leader-epoch-checkpoint").write_bytes(b"")
    log = open_log(tmp_path / "log", SMALL, clean=clean, recovery_point=5)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0), (3, 3)]


def test_epochs_of_a_killed_process_are_found_in_the_batches(tmp_path: Path) -> None:
    """REC-11: an append does not wait for the checkpoint."""
    log = open_log(tmp_path / "log")
    append(log, leader_epoch=0)
    flush_log(log)
    append(log, leader_epoch=5)
    log = reopen(log, clean=False)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 0), (5, 1)]


@pytest.mark.parametrize("content", [b"", bytes(56), b"\0\x63", None])
@pytest.mark.parametrize("clean", [True, False])
def test_damaged_snapshot_is_replaced_by_a_scan(
    tmp_path: Path, content: bytes | None, clean: bool
) -> None:
    """C029, SNAP-2: no duplicate gets in."""
    log = open_log(tmp_path / "log")
    for sequence in range(8):
        append(log, producer_id=7, sequence=sequence)
        if sequence == 3:
            log.roll(NOW_MS)
    log.close()
    for path in (tmp_path / "log").glob("*.snapshot"):
        damaged = path.read_bytes()[: path.stat().st_size // 2] if content is None else content
        path.write_bytes(damaged)
    log = open_log(tmp_path / "log", clean=clean, recovery_point=8)
    for sequence in range(3, 8):
        assert append(log, producer_id=7, sequence=sequence).first_offset == sequence
    with pytest.raises(RecordError):
        append(log, producer_id=7, sequence=2)


# ---- producers and transactions


@pytest.mark.parametrize("clean", [True, False])
def test_last_five_batches_are_known_after_restart_and_after_their_segment_is_gone(
    tmp_path: Path, clean: bool
) -> None:
    """C050: with record timestamps of any age."""
    log = open_log(tmp_path / "log", KEEP)
    old_ms = NOW_MS - 900 * DAY_MS
    for sequence in range(0, 30, 5):
        append(log, [b"v"] * 5, producer_id=7, sequence=sequence, timestamps_ms=old_ms)
    log.roll(NOW_MS)
    append(log)
    log.delete_records_before(30)
    doomed = [segment for segment, _ in log.deletable_segments(NOW_MS)]
    removed = at_once(lambda: log.delete_segments(doomed, NOW_MS))
    assert [segment.base_offset for segment in removed] == [0]
    log = reopen(log, clean=clean)
    assert base_offsets(log) == [30]
    for sequence in range(5, 30, 5):
        again = append(log, [b"v"] * 5, producer_id=7, sequence=sequence)
        assert again.is_duplicate
        assert again.first_offset == sequence
    with pytest.raises(RecordError):
        append(log, [b"v"] * 5, producer_id=7, sequence=0)
    assert append(log, producer_id=7, sequence=30).first_offset == 31


def test_lost_window_forgets_a_producer_whose_records_are_old(tmp_path: Path) -> None:
    """C029: without the window the timestamps of records would say that it is long gone."""
    now_ms = time.time_ns() // 1_000_000
    log = open_log(tmp_path / "log", SMALL, now_ms=now_ms)
    append(log, producer_id=7, sequence=0, timestamps_ms=now_ms - 30 * DAY_MS, now_ms=now_ms)
    log.close()
    (window,) = (tmp_path / "log").glob("*.window")
    window.write_bytes(b"")
    log = open_log(tmp_path / "log", SMALL, clean=True, now_ms=now_ms)
    again = append(
        log, producer_id=7, sequence=0, timestamps_ms=now_ms - 30 * DAY_MS, now_ms=now_ms
    )
    assert again.is_duplicate
    assert again.first_offset == 0


def test_silent_producers_are_not_taken_over(tmp_path: Path) -> None:
    """IDEM-13, C048."""
    log = open_log(tmp_path / "log")
    append(log, producer_id=7, sequence=0)
    log = reopen(log, clean=True, now_ms=NOW_MS + DAY_MS)
    assert len(log.producer_state) == 0
    assert append(log, producer_id=7, sequence=5, now_ms=NOW_MS + DAY_MS).first_offset == 1


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("rolls", [True, False])
def test_transactions_are_as_they_were(tmp_path: Path, clean: bool, rolls: bool) -> None:
    """TXN-14, C052: the open one stays open, the aborted one stays hidden."""
    log = open_log(tmp_path / "log")
    append(log, producer_id=1, sequence=0, transactional=True)
    append(log, producer_id=2, sequence=0, transactional=True)
    if rolls:
        log.roll(NOW_MS)
    end_transaction(log, 1, commit=False)
    append(log, producer_id=3, sequence=0, transactional=True)
    end_transaction(log, 3, commit=True)
    aborted = log.aborted_transactions(0, 5)
    assert [entry.last_stable_offset for entry in aborted] == [1]
    log = reopen(log, clean=clean)
    log.set_high_watermark(5)
    assert log.offsets.last_stable == 1
    assert log.aborted_transactions(0, 5) == aborted
    assert log.producer_state.transactions.in_order() == [(2, 1)]
    end_transaction(log, 2, commit=True)
    assert log.offsets.last_stable == 6


# ---- segments whose offsets span too much


@pytest.mark.parametrize("clean", [True, False])
def test_segment_whose_offsets_span_too_much_is_split(tmp_path: Path, clean: bool) -> None:
    """C015, REC-5."""
    directory = tmp_path / "log"
    directory.mkdir()
    far = INT31 + 10
    content = stored_batch(0) + stored_batch(5) + stored_batch(far) + stored_batch(2 * INT31 + 99)
    (directory / f"{0:020d}.log").write_bytes(content)
    log = open_log(directory, clean=clean)
    assert base_offsets(log) == [0, far, 2 * INT31 + 99]
    assert offsets_of(read_all(log)) == [0, 5, far, 2 * INT31 + 99]
    assert offsets_of(read_all(log, 6))[0] == far
    assert append(log).first_offset == 2 * INT31 + 100
    log = reopen(log, clean=True)
    assert base_offsets(log) == [0, far, 2 * INT31 + 99]
    assert not names_in(directory, ".deleted")


def test_copy_of_a_running_log_loads(tmp_path: Path) -> None:
    """Index files of an active segment are longer than their content."""
    log = filled(tmp_path / "log")
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    assert probe(open_log(tmp_path / "copy", SMALL), 60) == probe(log, 60)


@pytest.mark.parametrize("clean", [True, False])
def test_damaged_transaction_index_is_mended_without_a_touch_of_the_data(
    tmp_path: Path, clean: bool
) -> None:
    """S13: the segment is sealed and on disk; a bad batch in it costs none behind it."""
    log = open_log(tmp_path / "log", replace(SMALL, segment_bytes=1500))
    append(log, [b"a"], producer_id=1, sequence=0, transactional=True)
    end_transaction(log, 1, commit=False)
    append_many(log, 30)
    log.close()
    aborted = log.aborted_transactions(0, 32)
    assert aborted
    assert len(log.segments) > 2
    path = Path(segment_path(log.directory, 0, ".log"))
    content = bytearray(path.read_bytes())
    content[600] ^= 1
    path.write_bytes(content)
    index = path.with_suffix(".txnindex")
    index.write_bytes(index.read_bytes()[:-1])
    log = open_log(tmp_path / "log", SMALL, clean=clean, recovery_point=31)
    assert path.read_bytes() == content
    assert log.offsets.log_end == 32
    assert log.aborted_transactions(0, 32) == aborted

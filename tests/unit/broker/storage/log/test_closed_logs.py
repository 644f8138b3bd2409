"""A start from what the clean stop before has said of the logs, and when it is not believed."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from seglog.broker.storage.errors import CorruptIndexError, TornSegmentError
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.files.system_calls import SystemCalls
from seglog.broker.storage.log.closed_logs import read_closed_logs
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.segment.segment import LogSegment
from support.exchanges import replace_segments
from support.faulty_file_system import FaultyFileSystem
from support.ledger import read_committed
from support.log_builder import NOW_MS, append, append_many, end_transaction, read_all
from support.managed_logs import ManagedLogs

CLOSED_LOGS = "seglog-closed-logs"
MARKER = ".kafka_cleanshutdown"


def values_of(log: Log) -> list[bytes | None]:
    log.set_high_watermark(log.offsets.log_end)
    return [record.value for record in read_all(log)]


class CountingCalls(SystemCalls):
    """The real disk; counts what is opened and listed in the folders of partitions."""

    def __init__(self) -> None:
        self.opened: Counter[str] = Counter()

    def _count(self, path: str) -> None:
        if "-" in os.path.basename(os.path.dirname(path)):
            self.opened[path] += 1

    def open(self, path: str) -> int:
        self._count(path)
        return super().open(path)

    def list_directory(self, path: str) -> list[str]:
        self._count(f"{path}/")
        return super().list_directory(path)


def stopped_broker(tmp_path: Path, *, partitions: int = 1) -> None:
    """A directory with records, left by a clean stop and no younger than it has to be."""
    broker = ManagedLogs(tmp_path)
    for log in broker.create_topic("t", partitions):
        append(log, [b"a", b"b"], producer_id=7, sequence=0)
        log.roll(NOW_MS)
        append(log, [b"c"], producer_id=7, sequence=2)
    stop_later(broker, tmp_path)


def stop_later(broker: ManagedLogs, tmp_path: Path) -> None:
    """Stop, and give the note of it a later time than all that it tells of."""
    broker.stop()
    path = tmp_path / CLOSED_LOGS
    os.utime(path, ns=(time.time_ns(), time.time_ns() + 10**9))


def start(tmp_path: Path) -> tuple[ManagedLogs, CountingCalls]:
    calls = CountingCalls()
    return ManagedLogs(tmp_path, file_system=OsFileSystem(calls)), calls


def state_of(log: Log) -> tuple[object, ...]:
    """What has to be the same, however a log was opened."""
    return (
        repr(log.offsets),
        [(segment.base_offset, segment.size_bytes) for segment in log.segments],
        log.segments.active.next_offset(),
        log.leader_epochs.entries,
        list(log.producer_state),
        log.producer_state.end_offset,
        log.topic_id,
        log.is_as_it_was_closed,
    )


def test_start_after_a_clean_stop_opens_nothing_of_logs_that_did_not_change(tmp_path: Path) -> None:
    stopped_broker(tmp_path, partitions=3)
    broker, calls = start(tmp_path)
    assert calls.opened == {}
    assert values_of(broker.log("t", 2)) == [b"a", b"b", b"c"]
    broker.stop()


def test_log_is_the_same_as_after_a_look_at_its_files(tmp_path: Path) -> None:
    stopped_broker(tmp_path)
    note = (tmp_path / CLOSED_LOGS).read_bytes()
    broker, _ = start(tmp_path)
    from_note = state_of(broker.log("t"))
    broker.stop()
    (tmp_path / CLOSED_LOGS).unlink()
    broker, calls = start(tmp_path)
    assert calls.opened
    assert state_of(broker.log("t")) == from_note
    broker.stop()
    assert note


def test_idle_stop_repeats_what_is_known_of_a_log(tmp_path: Path) -> None:
    stopped_broker(tmp_path)
    before = (tmp_path / CLOSED_LOGS).read_bytes()
    broker, calls = start(tmp_path)
    broker.stop()
    assert calls.opened == {}
    assert (tmp_path / CLOSED_LOGS).read_bytes() == before


def test_records_after_the_start_are_known_at_the_next_one(tmp_path: Path) -> None:
    stopped_broker(tmp_path)
    broker, _ = start(tmp_path)
    append(broker.log("t"), [b"d"], producer_id=7, sequence=3)
    stop_later(broker, tmp_path)
    broker, calls = start(tmp_path)
    assert calls.opened == {}
    assert values_of(broker.log("t")) == [b"a", b"b", b"c", b"d"]
    duplicate = append(broker.log("t"), [b"d"], producer_id=7, sequence=3)
    assert duplicate.is_duplicate
    broker.stop()


def data_file(tmp_path: Path, base_offset: int = 2) -> Path:
    return tmp_path / "t-0" / f"{base_offset:020d}.log"


def overwrite_in_place(tmp_path: Path) -> None:
    """As a restored backup does that keeps size and time of modification."""
    path = data_file(tmp_path)
    before = path.stat()
    path.write_bytes(bytes(before.st_size))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def exchange_for_a_copy(tmp_path: Path) -> None:
    path = data_file(tmp_path)
    before = path.stat()
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))
    copy.replace(path)


def cut_the_end(tmp_path: Path) -> None:
    os.truncate(data_file(tmp_path), data_file(tmp_path).stat().st_size - 3)


def remove_a_segment(tmp_path: Path) -> None:
    data_file(tmp_path, 0).unlink()


def edit_the_epochs(tmp_path: Path) -> None:
    (tmp_path / "t-0/leader-epoch-checkpoint").write_text("0\n1\n0 0\n")


def leave_a_deleted_file(tmp_path: Path) -> None:
    (tmp_path / "t-0/00000000000000000000.log.deleted").write_bytes(b"")


def damage_the_note(tmp_path: Path) -> None:
    content = bytearray((tmp_path / CLOSED_LOGS).read_bytes())
    content[-20] ^= 1
    (tmp_path / CLOSED_LOGS).write_bytes(content)


def let_it_be_of_another_user(tmp_path: Path) -> None:
    version, user, rest = (tmp_path / CLOSED_LOGS).read_bytes().split(b" ", 2)
    (tmp_path / CLOSED_LOGS).write_bytes(b"%s %d %s" % (version, int(user) + 1, rest))


def let_it_be_as_old_as_the_files(tmp_path: Path) -> None:
    """What changed in the tick of the clock in which it was written would not show."""
    path = tmp_path / CLOSED_LOGS
    changed_ns = max(each.stat().st_ctime_ns for each in (tmp_path / "t-0").iterdir())
    os.utime(path, ns=(changed_ns, changed_ns))


@pytest.mark.parametrize(
    "change",
    [
        overwrite_in_place,
        exchange_for_a_copy,
        cut_the_end,
        remove_a_segment,
        edit_the_epochs,
        leave_a_deleted_file,
        damage_the_note,
        let_it_be_of_another_user,
        let_it_be_as_old_as_the_files,
    ],
)
def test_log_whose_files_may_be_others_is_looked_at(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    stopped_broker(tmp_path)
    change(tmp_path)
    broker, calls = start(tmp_path)
    assert calls.opened
    broker.stop()


def test_moved_folder_is_looked_at_where_it_is_now(tmp_path: Path) -> None:
    stopped_broker(tmp_path / "a")
    ManagedLogs(tmp_path / "a", tmp_path / "b").stop()
    (tmp_path / "a/t-0").rename(tmp_path / "b/t-0")
    broker = ManagedLogs(tmp_path / "a", tmp_path / "b")
    log = broker.log("t")
    assert log.directory == str(tmp_path / "b/t-0")
    assert values_of(log) == [b"a", b"b", b"c"]
    broker.stop()


def test_exchanged_folders_are_told_apart(tmp_path: Path) -> None:
    stopped_broker(tmp_path, partitions=2)
    (tmp_path / "t-0").rename(tmp_path / "x")
    (tmp_path / "t-1").rename(tmp_path / "t-0")
    (tmp_path / "x").rename(tmp_path / "t-1")
    broker, calls = start(tmp_path)
    assert f"{tmp_path}/t-0/" in calls.opened
    assert f"{tmp_path}/t-1/" in calls.opened
    broker.stop()


def test_note_is_gone_while_a_broker_runs_and_after_a_kill(tmp_path: Path) -> None:
    stopped_broker(tmp_path)
    broker, _ = start(tmp_path)
    assert not (tmp_path / CLOSED_LOGS).exists()
    broker.kill()
    (tmp_path / CLOSED_LOGS).write_bytes(b"of a run before")
    broker, calls = start(tmp_path)
    assert calls.opened
    assert not (tmp_path / CLOSED_LOGS).exists()
    broker.kill()


def test_note_counts_for_nothing_without_the_marker(tmp_path: Path) -> None:
    stopped_broker(tmp_path)
    (tmp_path / MARKER).unlink()
    broker, calls = start(tmp_path)
    assert calls.opened
    broker.kill()


def test_note_is_on_disk_before_the_marker_is_there(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path)
    append_many(broker.create_topic("t")[0], 1)
    broker.stop()
    disk = FaultyFileSystem()
    broker = ManagedLogs(tmp_path, file_system=disk)
    append_many(broker.log("t"), 1)
    disk.calls.fail("sync", path_part=CLOSED_LOGS)
    broker.stop()
    assert not (tmp_path / MARKER).exists()


def test_full_disk_costs_the_note_and_not_the_marker(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    broker = ManagedLogs(tmp_path, file_system=disk)
    append_many(broker.create_topic("t")[0], 1)
    disk.calls.fail("write", error=28, path_part=CLOSED_LOGS)
    broker.stop()
    assert (tmp_path / MARKER).exists()
    assert not (tmp_path / CLOSED_LOGS).exists()


def test_deleted_records_stay_deleted(tmp_path: Path) -> None:
    """The checkpoint says where a log starts, and not the note."""
    stopped_broker(tmp_path)
    broker, _ = start(tmp_path)
    log = broker.log("t")
    log.set_high_watermark(3)
    log.delete_records_before(1)
    stop_later(broker, tmp_path)
    broker, _ = start(tmp_path)
    assert broker.log("t").offsets.log_start == 1
    broker.stop()


def test_aborted_transactions_are_known_after_a_start_that_looks_at_nothing(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path)
    [log] = broker.create_topic("t")
    append(log, [b"x"], producer_id=3, sequence=0, transactional=True)
    end_transaction(log, 3, commit=False)
    stop_later(broker, tmp_path)
    broker, calls = start(tmp_path)
    assert calls.opened == {}
    [aborted] = broker.log("t").aborted_transactions(0, 2)
    assert aborted.producer_id == 3
    broker.stop()


def test_more_producers_than_the_note_takes_come_from_their_snapshot(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path)
    [log] = broker.create_topic("t")
    for producer_id in range(20):
        append(log, producer_id=producer_id, sequence=0)
    before = list(log.producer_state)
    stop_later(broker, tmp_path)
    broker, calls = start(tmp_path)
    assert {path.rpartition(".")[2] for path in calls.opened} == {"snapshot", "window"}
    assert list(broker.log("t").producer_state) == before
    broker.stop()


def torn_broker(tmp_path: Path) -> ManagedLogs:
    """A start after which the end of the data file is not what it was, though its times are."""
    stopped_broker(tmp_path)
    broker, _ = start(tmp_path)
    path = data_file(tmp_path)
    path.write_bytes(bytes(path.stat().st_size))
    return broker


def test_nothing_is_appended_behind_an_end_that_the_disk_has_lost(tmp_path: Path) -> None:
    broker = torn_broker(tmp_path)
    for _ in range(2):
        with pytest.raises(TornSegmentError, match="restart the broker"):
            append(broker.log("t"), [b"d"])
    broker.stop()
    broker, _ = start(tmp_path)
    assert values_of(broker.log("t")) == [b"a", b"b"]
    append(broker.log("t"), [b"d"])
    broker.stop()


def test_roll_before_the_first_append_heals_an_unfit_index(tmp_path: Path) -> None:
    """A roll that gave up there left a segment behind, and the next start hid what followed."""
    stopped_broker(tmp_path)
    broker, _ = start(tmp_path)
    os.truncate(data_file(tmp_path).with_suffix(".index"), 5)
    log = broker.log("t")
    log.roll(NOW_MS)
    append(log, [b"d"])
    log.roll(NOW_MS)
    broker.stop()
    broker, _ = start(tmp_path)
    assert values_of(broker.log("t")) == [b"a", b"b", b"c", b"d"]
    broker.stop()


def test_offsets_that_are_given_anew_after_a_clean_stop_are_of_a_later_leader_epoch(
    tmp_path: Path,
) -> None:
    """KIP-320: consumers that have read what was cut while the broker was down can notice."""
    stopped_broker(tmp_path)
    broker, _ = start(tmp_path)
    floor = broker.log("t").leader_epoch_floor
    stop_later(broker, tmp_path)
    cut_the_end(tmp_path)
    broker, _ = start(tmp_path)
    log = broker.log("t")
    assert log.offsets.log_end == 2
    assert log.leader_epoch_floor > max(floor, log.leader_epochs.latest_epoch)
    broker.stop()


def test_note_is_read_as_it_was_written(tmp_path: Path) -> None:
    stopped_broker(tmp_path)
    closed_logs = read_closed_logs(OsFileSystem(), str(tmp_path / CLOSED_LOGS))
    closed = closed_logs.find("t-0")
    assert closed is not None
    assert closed.encode() == closed_logs.entries["t-0"]
    assert json.loads(closed_logs.entries["t-0"])
    assert closed_logs.find("t-1") is None


@pytest.mark.parametrize("kept_bytes", [None, 0, 34])
def test_aborted_records_stay_hidden_when_their_transaction_index_is_lost(
    tmp_path: Path, kept_bytes: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """U27: of a sealed segment, gone or cut between two entries while the broker was down."""
    broker = ManagedLogs(tmp_path)
    (log,) = broker.create_topic("t", 1)
    for number in range(2):
        append(log, [b"aborted"], producer_id=7, sequence=number, transactional=True)
        end_transaction(log, 7, commit=False)
        append(log, [b"plain %d" % number])
    log.roll(NOW_MS)
    append(log, [b"last"])
    stop_later(broker, tmp_path)
    (index,) = tmp_path.glob("t-0/*.txnindex")
    assert index.stat().st_size == 68
    if kept_bytes is None:
        index.unlink()
    else:
        os.truncate(index, kept_bytes)
    broker = ManagedLogs(tmp_path)
    log = broker.log("t")
    log.set_high_watermark(log.offsets.log_end)
    values = [value for _offset, _key, value in read_committed(log)]
    assert values == [b"plain 0", b"plain 1", b"last"]
    assert caplog.text.count("event=transaction-index-rebuilt") == 1
    assert index.stat().st_size == 68
    broker.stop()


def test_transaction_index_that_is_removed_before_it_is_read_shows_no_aborted_records(
    tmp_path: Path,
) -> None:
    """U27: the read is refused until a restart, which builds it anew."""
    broker = ManagedLogs(tmp_path)
    (log,) = broker.create_topic("t", 1)
    append(log, [b"aborted"], producer_id=7, sequence=0, transactional=True)
    end_transaction(log, 7, commit=False)
    log.roll(NOW_MS)
    append(log, [b"last"])
    stop_later(broker, tmp_path)
    broker = ManagedLogs(tmp_path)
    (index,) = tmp_path.glob("t-0/*.txnindex")
    index.unlink()
    log = broker.log("t")
    log.set_high_watermark(log.offsets.log_end)
    with pytest.raises(CorruptIndexError, match="restart"):
        read_committed(log)
    broker.kill()


def test_compaction_after_the_start_takes_back_what_was_known_of_a_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the next start misses the transaction index of a segment that was compacted away."""
    broker = ManagedLogs(tmp_path)
    (log,) = broker.create_topic("t", 1)
    append(log, [b"aborted"], producer_id=7, sequence=0, transactional=True)
    end_transaction(log, 7, commit=False)
    log.roll(NOW_MS)
    append(log, [b"last"])
    stop_later(broker, tmp_path)
    broker = ManagedLogs(tmp_path)
    log = broker.log("t")
    sealed = log.segments.first
    assert sealed is not None
    cleaned = LogSegment.create(
        OsFileSystem(), log.directory, 0, log.config, NOW_MS, suffix=".cleaned"
    )
    cleaned.on_become_inactive()
    for segment in replace_segments(log, [cleaned], [sealed]):
        segment.delete_files()
    stop_later(broker, tmp_path)
    broker, calls = start(tmp_path)
    assert calls.opened == {}
    assert "event=transaction-index-rebuilt" not in caplog.text
    broker.stop()

"""A kill of a broker costs the logs that nobody wrote to a look, and no write."""

from collections import Counter
from pathlib import Path

import pytest

from seglog.broker.storage.log.log import Log
from support.faulty_file_system import FaultyFileSystem
from support.log_builder import NOW_MS, append, append_many, end_transaction, read_all
from support.managed_logs import ManagedLogs
from support.stopped_logs import segment_file


def stopped_broker(tmp_path: Path, count: int = 3) -> None:
    broker = ManagedLogs(tmp_path)
    [log] = broker.create_topic("t")
    append(log, [b"first"], producer_id=5, sequence=0)
    log.roll(NOW_MS)
    append_many(log, count)
    broker.stop()


def contents(tmp_path: Path) -> dict[str, tuple[int, bytes]]:
    """The files of the partition with the time of their last change."""
    return {
        path.name: (path.stat().st_mtime_ns, path.read_bytes())
        for path in (tmp_path / "t-0").iterdir()
    }


def start(tmp_path: Path) -> tuple[ManagedLogs, FaultyFileSystem]:
    disk = FaultyFileSystem()
    return ManagedLogs(tmp_path, file_system=disk), disk


def killed_broker(tmp_path: Path) -> None:
    stopped_broker(tmp_path)
    ManagedLogs(tmp_path).kill()


def test_recovery_writes_nothing_to_a_log_that_is_as_it_was_closed(tmp_path: Path) -> None:
    stopped_broker(tmp_path)
    before = contents(tmp_path)
    ManagedLogs(tmp_path).kill()
    broker, _ = start(tmp_path)
    assert contents(tmp_path) == before
    assert len(read_all(broker.log("t"))) == 4
    assert len(broker.log("t").producer_state) == 1
    broker.kill()


def test_first_stop_after_a_kill_syncs_no_log_that_did_not_change(tmp_path: Path) -> None:
    killed_broker(tmp_path)
    before = contents(tmp_path)
    broker, disk = start(tmp_path)
    assert broker.log("t").is_as_it_was_closed
    disk.calls.counts = Counter()
    disk.calls.fail("sync", path_part="t-0/")
    broker.stop()
    assert contents(tmp_path) == before
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    again = ManagedLogs(tmp_path)
    assert len(read_all(again.log("t"))) == 4
    again.stop()


def test_log_that_was_written_to_before_a_kill_is_synced_by_the_stop(tmp_path: Path) -> None:
    stopped_broker(tmp_path)
    broker = ManagedLogs(tmp_path)
    append_many(broker.log("t"), 1)
    broker.kill()
    broker = ManagedLogs(tmp_path)
    assert not broker.log("t").is_as_it_was_closed
    broker.stop()
    broker = ManagedLogs(tmp_path)
    assert len(read_all(broker.log("t"))) == 5
    broker.stop()


def lose_the_snapshots(tmp_path: Path) -> None:
    for path in (tmp_path / "t-0").glob("*.snapshot"):
        path.unlink()


def change_an_index(tmp_path: Path) -> None:
    path = segment_file(tmp_path / "t-0", 1, ".timeindex")
    path.write_bytes(b"\1" * len(path.read_bytes()))


def grow_an_index(tmp_path: Path) -> None:
    with segment_file(tmp_path / "t-0", 1, ".index").open("ab") as file:
        file.write(bytes(64))


def lose_the_recovery_points(tmp_path: Path) -> None:
    (tmp_path / "recovery-point-offset-checkpoint").unlink()


@pytest.mark.parametrize(
    "change",
    [lose_the_snapshots, change_an_index, grow_an_index, lose_the_recovery_points],
)
def test_log_that_recovery_has_to_mend_is_closed_as_one_that_was_written_to(
    tmp_path: Path, change: object
) -> None:
    killed_broker(tmp_path)
    assert callable(change)
    change(tmp_path)
    broker = ManagedLogs(tmp_path)
    assert not broker.log("t").is_as_it_was_closed
    broker.stop()
    broker = ManagedLogs(tmp_path)
    log = broker.log("t")
    assert len(read_all(log)) == 4
    assert append(log, [b"first"], producer_id=5, sequence=0).is_duplicate
    broker.stop()


def test_append_after_such_a_recovery_finds_room_in_the_indexes(tmp_path: Path) -> None:
    killed_broker(tmp_path)
    broker = ManagedLogs(tmp_path)
    log = broker.log("t")
    append_many(log, 100, value_bytes=500)
    assert log.segments.active.offset_index.entries > 5
    broker.stop()
    broker = ManagedLogs(tmp_path)
    assert len(read_all(broker.log("t"))) == 104
    broker.stop()


def index_of(log: Log) -> list[tuple[int, int]]:
    index = log.segments.active.offset_index
    return [index.entry_at(number) for number in range(index.entries)]


def test_index_is_built_anew_from_the_first_entry_on_that_is_wrong(tmp_path: Path) -> None:
    stopped_broker(tmp_path, count=200)
    broker = ManagedLogs(tmp_path)
    before = index_of(broker.log("t"))
    assert len(before) > 3
    broker.kill()
    path = segment_file(tmp_path / "t-0", 1, ".index")
    content = path.read_bytes()
    path.write_bytes(content[:16] + bytes(8) + content[24:] + bytes(800))
    disk = FaultyFileSystem()
    broker = ManagedLogs(tmp_path, file_system=disk)
    assert index_of(broker.log("t")) == before
    assert path.read_bytes() == content
    broker.stop()


def test_aborted_transactions_are_found_again(tmp_path: Path) -> None:
    broker = ManagedLogs(tmp_path)
    [log] = broker.create_topic("t")
    append(log, [b"x"], producer_id=3, sequence=0, transactional=True)
    end_transaction(log, 3, commit=False)
    broker.stop()
    ManagedLogs(tmp_path).kill()
    broker = ManagedLogs(tmp_path)
    assert [each.producer_id for each in broker.log("t").aborted_transactions(0, 2)] == [3]
    broker.stop()
    broker = ManagedLogs(tmp_path)
    assert [each.producer_id for each in broker.log("t").aborted_transactions(0, 2)] == [3]
    broker.stop()

"""A log that has lost records below its recovery point, and what is appended in their place."""

import errno
from pathlib import Path

from support.faulty_file_system import FaultyFileSystem
from support.log_builder import append_many, flush_log, offsets_of, read_all
from support.managed_logs import ManagedLogs


def test_what_is_appended_below_the_old_recovery_point_is_verified(tmp_path: Path) -> None:
    """T2, REC-7: the checkpoint is lowered before anything is appended."""
    broker = ManagedLogs(tmp_path)
    (log,) = broker.create_topic("t", 1, {"segment.bytes": "400"})
    append_many(log, 12, value_bytes=40)
    flush_log(log)
    broker.checkpoint()
    broker.kill()
    for base_offset in (9, 6):
        for path in (tmp_path / "t-0").glob(f"{base_offset:020d}.*"):
            path.unlink()
    broker = ManagedLogs(tmp_path)
    assert broker.log("t").offsets.log_end == 6
    assert "t 0 6\n" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    append_many(broker.log("t"), 8, value_bytes=40)
    broker.kill()
    torn = tmp_path / "t-0" / f"{6:020d}.log"
    torn.write_bytes(torn.read_bytes()[:-7])
    broker = ManagedLogs(tmp_path)
    assert offsets_of(read_all(broker.log("t"))) == list(range(broker.log("t").offsets.log_end))
    assert broker.log("t").offsets.log_end == 8
    broker.stop()


def test_full_disk_keeps_no_recovery_point_above_the_log_end_and_no_broker_from_its_start(
    tmp_path: Path,
) -> None:
    """There is no room for the lower one, and the old one would be believed after the next kill."""
    broker = ManagedLogs(tmp_path)
    (log,) = broker.create_topic("t", 1, {"segment.bytes": "400"})
    append_many(log, 12, value_bytes=40)
    flush_log(log)
    broker.checkpoint()
    broker.kill()
    for path in (tmp_path / "t-0").glob(f"{9:020d}.*"):
        path.unlink()
    disk = FaultyFileSystem()
    disk.calls.fail("write", error=errno.ENOSPC, times=None, path_part="checkpoint")
    broker = ManagedLogs(tmp_path, file_system=disk)
    assert broker.log("t").offsets.log_end == 9
    assert not (tmp_path / "recovery-point-offset-checkpoint").exists()
    disk.calls.heal()
    broker.checkpoint()
    assert "t 0 9\n" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    broker.stop()


def test_log_that_was_compacted_before_its_policy_was_changed_keeps_what_follows_a_gap(
    tmp_path: Path,
) -> None:
    """REC-4: compaction has taken the last records of a segment, and not a power cut."""
    broker = ManagedLogs(tmp_path)
    for topic in ("t", "u"):
        (log,) = broker.create_topic(topic, 1, {"segment.bytes": "400"})
        append_many(log, 12, value_bytes=40)
        flush_log(log)
        first = log.segments.first
        assert first is not None
        *_, (_, last_position) = first.batches()
        with (tmp_path / f"{topic}-0" / f"{0:020d}.log").open("r+b") as data:
            data.truncate(last_position)
    broker.checkpoint()
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n2\nt 0 0\nu 0 0\n")
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 9\n")
    broker.kill()
    broker = ManagedLogs(tmp_path)
    assert broker.log("t").offsets.log_end == 12
    assert broker.log("u").offsets.log_end == 2
    broker.stop()

"""A log that has lost records below its recovery point, and what is appended in their place."""

import errno
from pathlib import Path

from support.faulty_file_system import FaultyFileSystem
from support.log_builder import append_many, offsets_of, read_all
from support.managed_logs import ManagedLogs


def test_what_is_appended_below_the_old_recovery_point_is_verified(tmp_path: Path) -> None:
    """T2, REC-7: the checkpoint is lowered before anything is appended."""
    broker = ManagedLogs(tmp_path)
    (log,) = broker.create_topic("t", 1, {"segment.bytes": "400"})
    append_many(log, 12, value_bytes=40)
    log.flush()
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
    log.flush()
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

"""What a stop does with a disk that hangs."""

import threading
from pathlib import Path

from seglog.broker.storage.files.file_system import OsFileSystem
from support.failing_disk import FailingDisk
from support.log_builder import append_many, flush_log
from support.managed_logs import ManagedLogs

MARKER = ".kafka_cleanshutdown"


class HangingCheckpoints(FailingDisk):
    """Once it is told to hang, a checkpoint of recovery points is not put in its place."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs = False
        self.is_reached, self.gate = threading.Event(), threading.Event()

    def rename(self, source: str, target: str) -> None:
        if self.hangs and target.endswith("recovery-point-offset-checkpoint"):
            self.is_reached.set()
            assert self.gate.wait(10)
        super().rename(source, target)


def test_directory_whose_checkpoint_hangs_is_not_marked_as_clean(tmp_path: Path) -> None:
    """S3: it may fail when nobody looks any more; and the stop does not wait for it."""
    disk = HangingCheckpoints()
    broker = ManagedLogs(tmp_path, file_system=OsFileSystem(disk))
    append_many(broker.create_topic("t")[0], 3)
    flush_log(broker.log("t"))
    disk.hangs = True
    job, *_ = broker.manager.housekeeping.checkpoint_jobs()
    writer = threading.Thread(target=job.run)
    writer.start()
    assert disk.is_reached.wait(5)
    broker.stop()
    assert not (tmp_path / MARKER).exists()
    disk.gate.set()
    writer.join()

"""How fast a log is verified after a kill, from the page cache.

Aim: 1 GB/s or more.
"""

import time
from pathlib import Path

from benchmarks.broker_frames import CONFIGS, batch_of, produce_frame
from benchmarks.many_partitions import Daemon
from benchmarks.raw import MEBIBYTE, RawConnection, scratch_folder
from benchmarks.report import Report

from seglog.clients import Admin

LOG_BYTES = 2 << 30
WINDOW = 16


def fill(address: str) -> int:
    """Write 2 GB in batches of 1 MiB; returns how many bytes."""
    with Admin(address) as admin:
        admin.create_topic("long", partitions=1, configs=CONFIGS)
    connection = RawConnection(address)
    frame = produce_frame(connection, "long", batch_of(MEBIBYTE, 1000))
    count = LOG_BYTES // len(frame) // WINDOW * WINDOW
    for _ in range(count // WINDOW):
        connection.socket.sendall(frame * WINDOW)
        connection.skip_answers(WINDOW)
    connection.close()
    return count * len(frame)


def run(report: Report) -> None:
    for _ in range(3):
        with scratch_folder() as folder:
            empty = Path(folder) / "empty"
            empty.mkdir()
            started = time.perf_counter()
            daemon = Daemon(empty)
            bare_seconds = time.perf_counter() - started
            daemon.stop()
            daemon = Daemon(Path(folder))
            size = fill(daemon.address)
            daemon.kill()
            for checkpoint in (Path(folder) / "data").glob("recovery-point-offset-checkpoint"):
                checkpoint.unlink()  # as if nothing of it had been synced
            started = time.perf_counter()
            daemon = Daemon(Path(folder))
            elapsed = time.perf_counter() - started - bare_seconds
            daemon.kill()
            report.figure("recovery of 2 GB, page cache", "MB/s", size / elapsed / 1e6, 1000)

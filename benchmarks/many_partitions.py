"""Start and stop of a broker with 10,000 partitions of one record each.

Aims, where ``python -c "import asyncio, uvloop"`` takes 60 ms of processor time (others in
proportion): a start after a clean stop within 2.0 s of processor time, a stop within 1 s on the
clock when nothing was written, a start after a kill within 3 s of processor time.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.raw import scratch_folder
from benchmarks.report import Report

from seglog.clients import Admin, Producer

TOPICS = 10
PARTITIONS = 1000
REFERENCE_SECONDS = 0.06
_TICKS = os.sysconf("SC_CLK_TCK")


class Daemon:
    """``seglogd serve`` on a folder, ready when it is made.

    Attributes:
        start_seconds: processor time until it was ready.
    """

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "seglog.broker", "serve"]
        for override in (
            "listeners=PLAINTEXT://127.0.0.1:0",
            "metrics.listener=127.0.0.1:0",
            f"log.dirs={folder / 'data'}",
            "log.retention.ms=-1",
        ):
            command += ["--override", override]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        self.start_seconds = processor_seconds(self.process.pid)
        port = next(word[5:] for word in ready.split() if word.startswith("port="))
        self.address = f"127.0.0.1:{port}"

    def stop(self) -> float:
        """Stop in order; seconds on the clock."""
        started = time.perf_counter()
        self.process.terminate()
        self._wait()
        return time.perf_counter() - started

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self._wait()

    def _wait(self) -> None:
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def processor_seconds(pid: int) -> float:
    """What a process has computed so far, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def bare_import_seconds() -> float:
    """Processor time of ``import asyncio, uvloop``, the unit of the aims."""
    times = []
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", "import asyncio, uvloop"])
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        times.append(usage.ru_utime + usage.ru_stime)
    return min(times)


def fill(address: str) -> None:
    """One record for each of 10,000 partitions."""
    with Admin(address, request_timeout_ms=300_000) as admin:
        for number in range(TOPICS):
            admin.create_topic(f"wide-{number}", partitions=PARTITIONS)
    with Producer(address) as producer:
        for number in range(TOPICS):
            for partition in range(PARTITIONS):
                producer.send(f"wide-{number}", b"value", partition=partition)


def run(report: Report) -> None:
    scale = bare_import_seconds() / REFERENCE_SECONDS
    report.figure("bare import of asyncio and uvloop", "ms", scale * REFERENCE_SECONDS * 1000)
    with scratch_folder() as folder:
        daemon = Daemon(Path(folder))
        fill(daemon.address)
        report.figure("stop, 10,000 partitions written", "s", daemon.stop())
        for _ in range(3):
            daemon = Daemon(Path(folder))
            report.figure(
                "start after a clean stop, 10,000 partitions, processor time",
                "s",
                daemon.start_seconds,
                2.0 * scale,
                lower_is_better=True,
            )
            report.figure(
                "stop of 10,000 idle partitions", "s", daemon.stop(), 1.0, lower_is_better=True
            )
        for _ in range(3):
            Daemon(Path(folder)).kill()
            daemon = Daemon(Path(folder))
            report.figure(
                "start after a kill, 10,000 partitions, processor time",
                "s",
                daemon.start_seconds,
                3.0 * scale,
                lower_is_better=True,
            )
            daemon.stop()

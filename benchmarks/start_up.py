"""From an empty folder to the first accepted produce, idle memory, and memory over a long run.

Aims: 250 ms, 40 MB, and memory that stays flat while 5 GB are written.
"""

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.broker_frames import batch_of, produce_frame
from benchmarks.raw import MEBIBYTE, RawConnection, scratch_folder
from benchmarks.report import Report

from seglog.clients import Admin
from seglog.clients.testing import running_broker
from seglog.protocol.api import CreateTopicsRequest, NewTopic

ROUNDS = 5
WRITTEN_BYTES = 5 << 30


def resident_megabytes(process_id: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {process_id} has no VmRSS")


def first_produce(report: Report) -> None:
    """Start, create a topic, produce: until the answer is there."""
    with scratch_folder() as folder:
        command = [sys.executable, "-m", "seglog.broker", "serve"]
        for override in (
            "listeners=PLAINTEXT://127.0.0.1:0",
            "metrics.listener=127.0.0.1:0",
            f"log.dirs={folder}/data",
        ):
            command += ["--override", override]
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            assert process.stdout is not None
            ready = process.stdout.readline().decode()
            port = next(word[5:] for word in ready.split() if word.startswith("port="))
            connection = RawConnection(f"127.0.0.1:{port}")
            connection.socket.sendall(
                connection.frame(CreateTopicsRequest([NewTopic("first", partitions=1)]))
            )
            assert connection.answer().response.topics[0].error == 0
            connection.socket.sendall(produce_frame(connection, "first", batch_of(1, 100)))
            assert connection.answer().response.partitions[0].error == 0
            elapsed = time.perf_counter() - started
            connection.close()
            report.figure("start to first produce", "ms", elapsed * 1000, 250, lower_is_better=True)
            time.sleep(0.5)
            report.figure(
                "resident memory, idle",
                "MB",
                resident_megabytes(process.pid),
                40,
                lower_is_better=True,
            )
        finally:
            process.terminate()
            process.wait()


def long_run(report: Report) -> None:
    """Write 5 GB with retention behind it; memory at the start and at the end."""
    configs = {"segment.bytes": 256 * MEBIBYTE, "retention.bytes": 512 * MEBIBYTE}
    configs |= {"max.message.bytes": 2 * MEBIBYTE, "file.delete.delay.ms": 0}
    with running_broker(configs={"log.retention.check.interval.ms": 500}) as broker:
        with Admin(broker.address) as admin:
            admin.create_topic("long", partitions=1, configs=configs)
        connection = RawConnection(broker.address)
        frame = produce_frame(connection, "long", batch_of(MEBIBYTE, 1000))
        for number in range(WRITTEN_BYTES // len(frame)):
            connection.socket.sendall(frame)
            connection.skip_answers(1)
            if number == 500:
                before = resident_megabytes(broker.process_id)
        after = resident_megabytes(broker.process_id)
        connection.close()
    report.figure("memory growth over 5 GB", "MB", after - before, 5, lower_is_better=True)


def run(report: Report) -> None:
    for _ in range(ROUNDS):
        first_produce(report)
    long_run(report)

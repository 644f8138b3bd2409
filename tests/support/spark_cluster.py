"""A standalone Spark cluster of two workers on this machine, and the job that tests run on it."""

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = ("protocol", "clients")


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """Run a master and two workers of one core each; yields the address for ``master()``."""
    processes = []
    try:
        master_log = folder / "master.log"
        processes.append(
            _start(
                master_log,
                "org.apache.spark.deploy.master.Master",
                *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
            )
        )
        address = _wait_for(master_log, "Starting Spark master at ").split()[0]
        for number in range(2):
            log = folder / f"worker-{number}.log"
            processes.append(
                _start(
                    log,
                    "org.apache.spark.deploy.worker.Worker",
                    *("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1"),
                    *("--memory", "1g", "--work-dir", str(folder / f"work-{number}"), address),
                )
            )
        for number in range(2):
            _wait_for(folder / f"worker-{number}.log", "Successfully registered with master")
        yield address
    finally:
        for process in reversed(processes):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start(log: Path, *command: str) -> subprocess.Popen[bytes]:
    home = os.environ["SPARK_HOME"]
    with log.open("wb") as output:
        return subprocess.Popen(
            [f"{home}/bin/spark-class", *command],
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "SPARK_DAEMON_MEMORY": "256m"},
        )


def _wait_for(log: Path, words: str, timeout_s: float = 60.0) -> str:
    """What follows some words in a log; another process writes it, and tells nobody."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        text = log.read_text(errors="replace")
        if words in text:
            return text.split(words, 1)[1]
        assert time.monotonic() < deadline_s, text[-2000:]
        time.sleep(0.05)


def zip_of_the_package(target: Path) -> Path:
    """What ``--py-files`` takes: the modules, which then run without the compiled kernel."""
    with zipfile.ZipFile(target, "w") as archive:
        # ``seglog`` has no __init__.py: Python finds such a package by the entry of its folder.
        archive.mkdir("seglog")
        for package in PACKAGES:
            for path in sorted((ROOT / package).rglob("*.py")):
                archive.write(path, Path("seglog") / path.relative_to(ROOT))
    return target


def python_without_the_package(folder: Path) -> Path:
    """An interpreter that has all that ours has installed, but not seglog."""
    packages = folder / "packages"
    packages.mkdir()
    installed = next(Path(entry) for entry in sys.path if entry.endswith("site-packages"))
    for entry in installed.iterdir():
        if "seglog" not in entry.name and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    script = folder / "python"
    # -B: what it would compile lies in the folders of the other interpreter.
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec "{base}" -B "$@"\n')
    script.chmod(0o755)
    return script


def run_job(
    master: str, address: str, topics: tuple[str, str], folder: Path, **given: str
) -> dict[str, Any]:
    """Run ``job`` in a driver of its own; returns what it found."""
    arguments = json.dumps(
        {"master": master, "address": address, "topics": topics, "folder": str(folder), **given}
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    if "python" in given:
        environment["PYSPARK_PYTHON"] = given["python"]
    result = subprocess.run(
        [sys.executable, "-m", "support.spark_cluster", arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env=environment,
    )
    assert result.returncode == 0, result.stderr[-5000:]
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def job(given: dict[str, Any]) -> dict[str, Any]:
    """Count a topic on executors and copy it; in a stream, unless the package comes zipped."""
    from pyspark.sql import SparkSession

    source, target = given["topics"]
    builder = SparkSession.builder.master(given["master"])
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "600m",
        "spark.executor.cores": "1",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.submit.pyFiles": given.get("archive", ""),
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if "archive" in given:
        from seglog.clients.spark import register

        register(spark)
    reader = spark.read.format("seglog").option("bootstrap.servers", given["address"])
    rows = reader.option("subscribe", source).option("minPartitions", 4).load()
    count = rows.count()

    if "archive" in given:
        writer = rows.select("key", "value").write.format("seglog").mode("append")
        writer.option("bootstrap.servers", given["address"]).option("topic", target).save()
    else:
        stream = spark.readStream.format("seglog").option("bootstrap.servers", given["address"])
        stream = stream.option("subscribe", source).option("startingOffsets", "earliest").load()
        query = stream.select("key", "value").writeStream.format("seglog")
        query = query.option("bootstrap.servers", given["address"]).option("topic", target)
        query = query.option("checkpointLocation", str(Path(given["folder"]) / f"to-{target}"))
        query.trigger(availableNow=True).start().awaitTermination(60)
    copied = spark.read.format("seglog").option("bootstrap.servers", given["address"])
    found = {
        "count": count,
        # The driver has a place among them, too.
        "executors": spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1,
        "copied": copied.option("subscribe", target).load().count(),
    }
    spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(job(json.loads(sys.argv[1]))))

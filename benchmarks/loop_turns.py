"""The longest turns of the event loop while a broker does what grows with its size.

The broker runs in this process, on the loop of the standard library, each callback of which is
timed in the processor time of its thread; the client is another thread. Aim: the p99 of the turns
and the longest one below 10 ms.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from benchmarks.raw import RawConnection, scratch_folder
from benchmarks.report import Report

from seglog.broker.daemon.app import Broker
from seglog.broker.runtime.garbage import GarbageCollection
from seglog.clients import Admin, Producer, TopicPartition
from seglog.config import load_broker_config
from seglog.protocol.api import (
    FetchPartition,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ProducePartition,
    ProduceRequest,
)
from seglog.protocol.records.builder import build_batch
from seglog.protocol.types import IsolationLevel

SEGMENTS = 3000
PRODUCERS = 100_000
PARTITIONS = 10_000
COMPACTED_LOGS = 500
START_MS = 1_700_000_000_000
AIM_MS = 10


class Turns:
    """Times every callback of the loops of this process, by patching their handles."""

    def __init__(self) -> None:
        self.milliseconds: list[float] = []
        self._run = asyncio.Handle._run

    def _timed(self, handle: asyncio.Handle) -> None:
        started = time.thread_time()
        self._run(handle)
        self.milliseconds.append((time.thread_time() - started) * 1000)

    def __enter__(self) -> Self:
        def run(handle: asyncio.Handle) -> None:
            self._timed(handle)

        asyncio.Handle._run = run  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign]

    def take(self) -> tuple[float, float]:
        """p99 and the longest since the last time."""
        taken, self.milliseconds = sorted(self.milliseconds), []
        return taken[int(len(taken) * 0.99)], taken[-1]


class BrokerThread:
    """A broker on a loop of its own, ready at ``address`` once it is made."""

    def __init__(self, folder: Path, *overrides: str) -> None:
        settings = (
            "listeners=PLAINTEXT://127.0.0.1:0",
            f"log.dirs={folder}",
            "log.retention.ms=-1",
            *overrides,
        )
        self._config = load_broker_config(None, {}, settings)
        self._is_ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._port = 0
        self._thread = threading.Thread(target=self._serve, name="broker")
        self._thread.start()
        assert self._is_ready.wait(120)
        self.address = f"127.0.0.1:{self._port}"

    def _serve(self) -> None:
        async def serve() -> None:
            broker = Broker(self._config)
            await broker.start()
            garbage_collection = GarbageCollection(self._loop)
            garbage_collection.start()
            self._port = broker.port
            self._is_ready.set()
            await self._stopping.wait()
            garbage_collection.stop()
            await broker.stop()

        self._loop.run_until_complete(serve())
        self._loop.close()

    def stop(self) -> None:
        """Stop in order."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()


@contextmanager
def served(*overrides: str) -> Iterator[str]:
    """The address of a broker over an empty folder."""
    with scratch_folder() as folder:
        thread = BrokerThread(Path(folder), *overrides)
        try:
            yield thread.address
        finally:
            thread.stop()


class Situations:
    """Measures one situation after the other and reports each."""

    def __init__(self, report: Report, turns: Turns) -> None:
        self._report = report
        self._turns = turns

    def measure(self, name: str, action: Callable[[], Any]) -> None:
        """The turns while ``action`` runs."""
        self._turns.milliseconds.clear()
        action()
        time.sleep(0.05)  # the turn that gave the answer may not have ended yet
        p99, longest = self._turns.take()
        for kind, value in (("p99", p99), ("longest", longest)):
            self._report.figure(
                f"turn of the loop, {kind}: {name}", "ms", value, AIM_MS, lower_is_better=True
            )


def ask(connection: RawConnection, request: Any) -> Any:
    """The response to one request."""
    connection.socket.sendall(connection.frame(request))
    return connection.answer().response


def many_segments(situations: Situations) -> None:
    """A log of 3,000 segments: times, read_committed fetches, a parked fetch at its start."""
    with served() as address, Admin(address) as admin:
        admin.create_topic("long", partitions=1)
        connection = RawConnection(address)
        for number in range(SEGMENTS):
            batch = build_batch([(START_MS + number, None, b"v" * 150, ())])
            ask(connection, produce("long", 0, batch))
            admin.roll("long")
        times = ListOffsetsRequest([ListOffsetsPartition("long", 0, START_MS + SEGMENTS // 2)])
        for name in ("first", "second"):
            situations.measure(f"{name} lookup by time", lambda: ask(connection, times))
        committed = FetchRequest(
            0, 1, 1 << 20, [FetchPartition("long", 0, 0, 1000)], IsolationLevel.READ_COMMITTED
        )
        for name in ("first", "second"):
            situations.measure(
                f"{name} read_committed fetch at the start", lambda: ask(connection, committed)
            )
        parked = RawConnection(address)
        waits = FetchRequest(2000, 1 << 30, 1 << 30, [FetchPartition("long", 0, 0, 1 << 30)])
        parked.socket.sendall(parked.frame(waits))
        batch = build_batch([(START_MS, None, b"v", ())])
        situations.measure(
            "appends below a parked fetch at the start",
            lambda: [ask(connection, produce("long", 0, batch)) for _ in range(200)],
        )
        parked.close()
        connection.close()


def produce(topic: str, partition: int, batch: bytes | bytearray | memoryview) -> ProduceRequest:
    """One batch."""
    entry = ProducePartition(topic, partition, memoryview(batch))
    return ProduceRequest(1, 30_000, [entry])


def many_producers(situations: Situations) -> None:
    """A log that knows 100,000 producers is rolled."""
    with served() as address, Admin(address) as admin:
        admin.create_topic("known", partitions=1)
        connection = RawConnection(address)
        window = 500
        for first in range(0, PRODUCERS, window):
            frames = [
                connection.frame(
                    produce(
                        "known",
                        0,
                        build_batch(
                            [(START_MS, None, b"v", ())],
                            producer_id=number,
                            producer_epoch=0,
                            base_sequence=0,
                        ),
                    )
                )
                for number in range(first, first + window)
            ]
            connection.socket.sendall(b"".join(frames))
            connection.skip_answers(window)
        connection.close()
        situations.measure("roll with 100,000 producers", lambda: admin.roll("known"))


def many_partitions(situations: Situations) -> None:
    """10,000 partitions: retention, checkpoints, an idle stop."""
    with scratch_folder() as folder:
        checkpoints = "log.flush.offset.checkpoint.interval.ms=1000"
        thread = BrokerThread(Path(folder), checkpoints)
        with Admin(thread.address, request_timeout_ms=300_000) as admin:
            for number in range(10):
                admin.create_topic(f"wide-{number}", partitions=PARTITIONS // 10)
            with Producer(thread.address) as producer:
                for number in range(10):
                    for partition in range(PARTITIONS // 10):
                        producer.send(f"wide-{number}", b"value", partition=partition)
            situations.measure(
                "retention over 10,000 partitions", lambda: admin.run_retention(dry_run=False)
            )
            situations.measure("checkpoints of 10,000 partitions", lambda: time.sleep(2.5))
        situations.measure("stop of 10,000 partitions", thread.stop)


def many_compacted_logs(situations: Situations) -> None:
    """500 compacted logs, of which one after the other is cleaned."""
    with served("log.cleaner.backoff.ms=50") as address, Admin(address) as admin:
        admin.create_topic(
            "tables",
            partitions=COMPACTED_LOGS,
            configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01},
        )
        with Producer(address) as producer:
            for partition in range(COMPACTED_LOGS):
                for number in range(3):
                    producer.send("tables", b"value", key=b"%d" % number, partition=partition)

        def clean() -> None:
            admin.roll("tables")
            place = TopicPartition("tables", COMPACTED_LOGS - 1)
            admin.clean(place.topic, wait=True)

        situations.measure("cleaning 500 compacted logs", clean)


def run(report: Report) -> None:
    with Turns() as turns:
        situations = Situations(report, turns)
        many_segments(situations)
        many_producers(situations)
        many_partitions(situations)
        many_compacted_logs(situations)

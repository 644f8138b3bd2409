"""The main job on real input: a data set through the broker and back, with a kill in the middle.

Run it as ``make demo``. It starts a broker on a free port with a temporary folder, checks every
step against the source, prints a table, and exits non-zero on any difference.
"""

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from examples.compacted import last_flights
from examples.flights import FLIGHT_COUNT, Flight, flights, milliseconds
from seglog.clients import Admin, Consumer, DeliveryFuture, Producer, Record, TopicPartition
from seglog.clients.errors import ClientError
from seglog.clients.testing import RunningBroker, running_broker

TOPIC = "flights"
PARTITIONS = 3
CUT_TIME = "2013-07-04T00:00:00Z"
EXTRA_BEFORE_KILL = 20_000
EMPTY_BY_DESIGN = {".lock", "seglog-reserve"}
KEEP_FOR_EVER = {"retention.ms": -1, "segment.bytes": 8 * 1024 * 1024}

ResultT = TypeVar("ResultT")


class DifferenceError(Exception):
    """What came back is not what was sent."""


@dataclass
class Report:
    """The table that is printed at the end."""

    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, step: str, count: int, unit: str, seconds: float | None = None) -> None:
        """One step: how much of what, and how fast."""
        rate = f"{count / seconds:>12,.0f} /s" if seconds else ""
        self.rows.append((step, f"{count:,} {unit}", rate))
        print(f"  {step}: {count:,} {unit} {rate}", flush=True)

    def print(self) -> None:
        """Everything, in columns."""
        widths = [max(len(row[column]) for row in self.rows) for column in range(3)]
        print()
        for row in self.rows:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)))


def timed(action: Callable[[], ResultT]) -> tuple[ResultT, float]:
    """What an action returns, and the seconds it took."""
    started = time.perf_counter()
    result = action()
    return result, time.perf_counter() - started


def check(found: object, expected: object, what: str) -> None:
    """Raise ``DifferenceError`` unless both are equal."""
    if found != expected:
        raise DifferenceError(f"{what}: found {found!r}, expected {expected!r}")


def produce_all(address: str, source: list[Flight]) -> None:
    with Producer(address, acks="all", linger_ms=5, compression="zstd") as producer:
        producer.send_many(TOPIC, ((each.key, each.value, each.timestamp_ms) for each in source))


def read_all(address: str) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = defaultdict(list)
    with Consumer(address, TOPIC, start="earliest", stop_at_end=True) as consumer:
        for record in consumer:
            found[record.partition].append(record)
    return found


def compare(found: dict[int, list[Record]], source: list[Flight]) -> dict[int, list[Flight]]:
    """Check record by record; returns the source as it lies in the partitions.

    Kafka's partitioner puts all records of a key into one partition, in the order of the source.
    """
    partition_of = {record.key: number for number, each in found.items() for record in each}
    expected: dict[int, list[Flight]] = {number: [] for number in range(PARTITIONS)}
    for flight in source:
        expected[partition_of[flight.key]].append(flight)
    for number, flights_there in expected.items():
        records = found[number]
        check(len(records), len(flights_there), f"records in partition {number}")
        for offset, (record, flight) in enumerate(zip(records, flights_there, strict=True)):
            check(
                (record.offset, record.key, record.value, record.timestamp_ms),
                (offset, flight.key, flight.value, flight.timestamp_ms),
                f"record {offset} of partition {number}",
            )
    return expected


def offsets_at(expected: dict[int, list[Flight]], time_ms: int) -> dict[TopicPartition, int]:
    """By hand: the first offset in each partition that is stamped so or later."""
    return {
        TopicPartition(TOPIC, number): next(
            offset for offset, each in enumerate(there) if each.timestamp_ms >= time_ms
        )
        for number, there in expected.items()
    }


def delete_before(address: str, expected: dict[int, list[Flight]], report: Report) -> None:
    by_hand = offsets_at(expected, milliseconds(CUT_TIME))
    with Admin(address) as admin:
        answers, seconds = timed(
            lambda: admin.list_offsets({each: milliseconds(CUT_TIME) for each in by_hand})
        )
        found = {each: answer.offset if answer else None for each, answer in answers.items()}
        check(found, by_hand, f"first offsets at or after {CUT_TIME}")
        report.add("offsets by time", len(found), "partitions", seconds)
        check(admin.delete_records(by_hand), by_hand, "log starts after the deletion")
        earliest = admin.list_offsets(dict.fromkeys(by_hand, "earliest"))
        starts = {each: answer.offset if answer else None for each, answer in earliest.items()}
        check(starts, by_hand, "earliest offsets")
    report.add("deleted before it", sum(by_hand.values()), "records")


def produce_and_kill(
    broker: RunningBroker, source: list[Flight]
) -> list[tuple[Flight, DeliveryFuture]]:
    """Send on until some are acknowledged, then kill the broker; what was sent, in order."""
    producer = Producer(
        broker.address, acks="all", linger_ms=0, delivery_timeout_ms=3000, request_timeout_ms=1000
    )
    sent: list[tuple[Flight, DeliveryFuture]] = []
    try:
        for flight in source:
            sent.append((flight, producer.send(TOPIC, flight.value, key=flight.key)))
            if len(sent) == EXTRA_BEFORE_KILL:
                sent[EXTRA_BEFORE_KILL // 2][1].result(30)
                broker.kill()  # SIGKILL, with requests on their way
                break
    finally:
        producer.close(timeout=10)
    return sent


def acknowledged(sent: list[tuple[Flight, DeliveryFuture]]) -> Iterator[tuple[Flight, int, int]]:
    for flight, future in sent:
        try:
            metadata = future.result(10)
        except ClientError:
            continue  # never acknowledged: it may be there or not
        yield flight, metadata.partition, metadata.offset


def survive_a_kill(broker: RunningBroker, source: list[Flight], report: Report) -> None:
    sent = produce_and_kill(broker, source)
    survivors = list(acknowledged(sent))
    _, seconds = timed(broker.start)
    report.add("killed with SIGKILL after", len(survivors), "acknowledged records")
    report.add("restarted in", round(seconds * 1000), "ms")
    found = read_all(broker.address)
    by_offset = {
        (number, record.offset): record for number, each in found.items() for record in each
    }
    last_offsets: dict[int, int] = {}
    for flight, number, offset in survivors:
        there = by_offset.get((number, offset))
        content = (there.key, there.value) if there is not None else None
        check(content, (flight.key, flight.value), f"acknowledged record {number}/{offset}")
        if offset <= last_offsets.get(number, -1):
            raise DifferenceError(f"record {number}/{offset} is out of order")
        last_offsets[number] = offset
    report.add("found after the restart", len(survivors), "of them, in order")


def dump_log(broker: RunningBroker, report: Report) -> None:
    """Stop the broker and have every file checked by the offline tool."""
    check(broker.stop(), 0, "exit status of the broker")
    files = sorted(
        path
        for path in broker.data_directory.rglob("*")
        if path.is_file() and path.name not in EMPTY_BY_DESIGN
    )
    result = subprocess.run(
        [sys.executable, "-m", "seglog.broker", "dump-log", "--verify", *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise DifferenceError(f"dump-log --verify: {result.stdout[-2000:]}{result.stderr[-2000:]}")
    report.add("dump-log --verify", len(files), "files whole")


def run(broker: RunningBroker, report: Report) -> None:
    """The whole job."""
    source, seconds = timed(lambda: list(flights()))
    check(len(source), FLIGHT_COUNT, "flights in the data set")
    report.add("read the data set", len(source), "flights", seconds)
    with Admin(broker.address) as admin:
        admin.create_topic(TOPIC, partitions=PARTITIONS, configs=KEEP_FOR_EVER)
    _, seconds = timed(lambda: produce_all(broker.address, source))
    report.add("produced (zstd, acks=all)", len(source), "records", seconds)
    found, seconds = timed(lambda: read_all(broker.address))
    report.add("fetched", sum(map(len, found.values())), "records", seconds)
    expected = compare(found, source)
    report.add("compared with the source", len(source), "records, all equal")
    delete_before(broker.address, expected, report)
    survive_a_kill(broker, source, report)
    last_flights(broker, source, report)
    dump_log(broker, report)


def main() -> int:
    report = Report()
    with running_broker(configs={"log.cleaner.backoff.ms": 200}) as broker:
        try:
            run(broker, report)
        except DifferenceError as difference:
            print(f"DIFFERENCE  {difference}", file=sys.stderr)
            return 1
    report.print()
    print("\nEverything is as it was sent.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

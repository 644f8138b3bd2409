"""``seglog bench produce``: send records of one size and measure rate and latency."""

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from seglog.clients.cli.latencies import Latencies
from seglog.clients.cli.parameters import json_option
from seglog.clients.cli.producer_options import break_off, producer_of, producer_options
from seglog.clients.cli.rendering import LiveLine, print_json, print_line, print_message
from seglog.clients.cli.settings import connection_options

if TYPE_CHECKING:
    from seglog.clients.blocking.producer import Producer
    from seglog.clients.producer.futures import BulkFuture

_DISTINCT_VALUES: Final = 1000
_TURNS_PER_SECOND: Final = 100
_RECORDS_PER_TURN_MAX: Final = 1000
_BYTES_PER_TURN: Final = 65_536

Item = tuple[bytes | None, bytes]


@click.command("produce")
@click.argument("topic")
@click.option(
    "--num-records",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="How many.",
)
@click.option(
    "--record-size",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Bytes of a value.",
)
@click.option(
    "--payload-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take the values from the lines of this file.",
)
@click.option(
    "--throughput",
    type=float,
    default=-1.0,
    metavar="N",
    help="At most so many records a second; -1, the default, is as many as go.",
)
@click.option(
    "--record-key-range",
    type=click.IntRange(min=1),
    metavar="N",
    help="With keys 0 to N-1, at random.",
)
@click.option("--random-seed", type=int, default=0, help="Of the values and keys.")
@click.option(
    "--warmup-records",
    type=click.IntRange(min=0),
    default=0,
    help="The first so many are sent, but do not count.",
)
@click.option(
    "--reporting-interval",
    type=click.IntRange(min=1),
    default=5000,
    metavar="MS",
    help="Time between two lines about it; default 5000.",
)
@producer_options
@json_option
@connection_options
def bench_produce(topic: str, **options: Any) -> None:
    """Send records to TOPIC and measure.

    A latency is the time from handing a record to the client until its acknowledgement. Without
    --throughput the client's buffer is always full, so that the latency is mostly the way through
    it; limit the throughput to see the broker's. The last line goes to standard output.
    """
    if options["warmup_records"] >= options["num_records"]:
        raise click.UsageError("--warmup-records must be less than --num-records")
    load = _Load.of(options)
    with producer_of(options) as producer:
        run = _Run(producer, topic, load, options)
        try:
            run.send_all()
            producer.flush()
        except KeyboardInterrupt:
            print_message("interrupted; these are the figures so far")
            break_off(producer)
        run.end_live()
    elapsed_s = max(run.elapsed_s, 1e-6)
    if options["as_json"]:
        print_json(run.total.as_json(elapsed_s))
    else:
        print_line(run.total.total_line(elapsed_s))


@dataclass
class _Load:
    """The sent records: some distinct values and keys, again and again."""

    values: Sequence[bytes]
    key_range: int | None
    generator: random.Random

    @classmethod
    def of(cls, options: dict[str, Any]) -> "_Load":
        """Make or read the values.

        Raises:
            click.UsageError: the file has no lines.
        """
        generator = random.Random(options["random_seed"])  # noqa: S311 - a load, no secret
        path = options["payload_file"]
        if path is None:
            letters = bytes(range(ord("A"), ord("Z") + 1))
            size = options["record_size"]
            count = max(1, min(_DISTINCT_VALUES, (1 << 24) // size))
            values = [bytes(generator.choices(letters, k=size)) for _ in range(count)]
        else:
            values = path.read_bytes().splitlines()
            if not values:
                raise click.UsageError(f"{path} has no lines")
        return cls(values, options["record_key_range"], generator)

    def items(self, first: int, count: int) -> list[Item]:
        """Records number ``first`` and following."""
        values, size = self.values, len(self.values)
        if self.key_range is None:
            return [(None, values[number % size]) for number in range(first, first + count)]
        pick, limit = self.generator.randrange, self.key_range
        return [
            (b"%d" % pick(limit), values[number % size]) for number in range(first, first + count)
        ]


class _Run:
    """One measurement. Acknowledgements are counted on the client's thread, hence the lock."""

    def __init__(
        self, producer: "Producer", topic: str, load: _Load, options: dict[str, Any]
    ) -> None:
        self.total = Latencies()
        self._window = Latencies()
        self._lock = threading.Lock()
        self._producer = producer
        self._topic = topic
        self._load = load
        self._records = options["num_records"]
        self._warmup = options["warmup_records"]
        self._rate = options["throughput"]
        self._interval_s = options["reporting_interval"] / 1000
        self._live = LiveLine()
        self._counted_from_s = self._window_from_s = time.perf_counter()
        self._last_s = self._counted_from_s
        if self._rate > 0:
            per_turn = int(self._rate / _TURNS_PER_SECOND)
        else:
            per_turn = _BYTES_PER_TURN // max(1, len(load.values[0]))
        self._per_turn = max(1, min(per_turn, _RECORDS_PER_TURN_MAX))

    @property
    def elapsed_s(self) -> float:
        """From the first record that counts to the last acknowledgement."""
        return self._last_s - self._counted_from_s

    def send_all(self) -> None:
        """Send all records, as fast as the throughput allows."""
        begin_s = time.perf_counter()
        sent = 0
        while sent < self._records:
            edge = self._warmup if sent < self._warmup else self._records
            count = min(self._per_turn, edge - sent)
            if sent == self._warmup and sent:
                self._counted_from_s = time.perf_counter()
            items = self._load.items(sent, count)
            self._send(items, counts=sent >= self._warmup)
            sent += count
            self._report(sent)
            if self._rate > 0:
                ahead_s = begin_s + sent / self._rate - time.perf_counter()
                if ahead_s > 0:
                    time.sleep(ahead_s)

    def _send(self, items: list[Item], *, counts: bool) -> None:
        handed_s = time.perf_counter()
        size_bytes = sum(len(value) + len(key or b"") for key, value in items)
        future = self._producer.send_many(self._topic, items)
        if counts:
            future.add_done_callback(
                lambda done: self._acknowledged(done, handed_s, len(items), size_bytes)
            )

    def _acknowledged(
        self, future: "BulkFuture", handed_s: float, records: int, size_bytes: int
    ) -> None:
        now_s = time.perf_counter()
        if future.delivered_count < records:
            return  # flush() raises the error
        latency_ms = (now_s - handed_s) * 1000
        with self._lock:
            self._last_s = now_s
            self.total.add(latency_ms, records, size_bytes)
            self._window.add(latency_ms, records, size_bytes)

    def _report(self, sent: int) -> None:
        now_s = time.perf_counter()
        elapsed_s = now_s - self._window_from_s
        if elapsed_s < self._interval_s:
            if elapsed_s > 0:
                rate = self._window.count / elapsed_s
                self._live.show(f"{sent} of {self._records} records, {rate:.0f} records/sec")
            return
        with self._lock:
            window, self._window = self._window, Latencies()
        self._window_from_s = now_s
        self._live.clear()
        print_message(window.window_line(elapsed_s))

    def end_live(self) -> None:
        """Take the live line away."""
        self._live.clear()

"""``seglog bench fetch``: read records and count them."""

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from seglog.clients.cli.connections import open_consumer
from seglog.clients.cli.parameters import json_option
from seglog.clients.cli.rendering import LiveLine, print_json, print_line, print_message
from seglog.clients.cli.settings import connection_options
from seglog.protocol.wording import count_text

if TYPE_CHECKING:
    from seglog.clients.blocking.consumer import Consumer

_MIB: Final = 1024 * 1024
_RECORDS_PER_READ: Final = 20_000
_COUNTERS: Final = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
    "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
_HEADER: Final = f"start.time, end.time, {_COUNTERS}"
_DETAILED_HEADER: Final = f"time, threadId, {_COUNTERS}"


@click.command("fetch")
@click.argument("topic")
@click.option(
    "--num-records",
    "--messages",
    type=click.IntRange(min=1),
    help="How many; without it all that are there.",
)
@click.option(
    "--timeout",
    "timeout_ms",
    type=click.IntRange(min=1),
    default=10_000,
    metavar="MS",
    help="Give up after so long without a record; default 10000.",
)
@click.option("--show-detailed-stats", is_flag=True, help="A line every --reporting-interval.")
@click.option(
    "--reporting-interval",
    type=click.IntRange(min=1),
    default=5000,
    metavar="MS",
    help="Time between two of these lines; default 5000.",
)
@click.option("--hide-header", is_flag=True, help="Without the names of the columns.")
@click.option("--fetch-size", type=click.IntRange(min=1), help="Bytes of one partition in a fetch.")
@json_option
@connection_options
def bench_fetch(topic: str, **options: Any) -> int:
    """Read TOPIC from its first record on and measure, records decoded.

    The lines are those of Kafka's consumer test: MB are MiB, and the time of the first metadata
    stands where Kafka has that of joining a group.
    """
    number = options["num_records"]
    begun_at = datetime.now().astimezone()
    begin_s = time.perf_counter()
    consumer = open_consumer(
        [topic],
        "earliest",
        stop_at_end=number is None,
        partition_fetch_bytes=options["fetch_size"],
    )
    with consumer:
        count = _Count(begin_s, time.perf_counter())
        details = options["show_detailed_stats"] and not options["as_json"]
        if details and not options["hide_header"]:
            print_line(_DETAILED_HEADER)
        try:
            _read(consumer, count, options, details=details)
        except KeyboardInterrupt:
            print_message("interrupted; these are the figures so far")
    if options["as_json"]:
        print_json(count.as_json())
    elif not details:
        if not options["hide_header"]:
            print_line(_HEADER)
        ended_at = datetime.now().astimezone()
        print_line(f"{_moment_text(begun_at)}, {_moment_text(ended_at)}, {count.line()}")
    if number is not None and count.records < number:
        print_message(f"only {count.records} of {count_text(number, 'record')} came in time")
        return 1
    return 0


class _Count:
    """Records read so far, with the time."""

    def __init__(self, begin_s: float, joined_s: float) -> None:
        self.records = 0
        self.bytes = 0
        self.begin_s = begin_s
        self.joined_s = joined_s
        self.last_s = joined_s

    def line(self, since: "_Count | None" = None) -> str:
        """The counters; with ``since`` the rates are those of the time after it."""
        records, size_bytes, begin_s = self.records, self.bytes, self.begin_s
        fetch_begin_s = self.joined_s
        if since is not None:
            records -= since.records
            size_bytes -= since.bytes
            begin_s = fetch_begin_s = since.last_s
        elapsed_s = max(self.last_s - begin_s, 1e-6)
        fetch_s = max(self.last_s - fetch_begin_s, 1e-6)
        mebibytes = size_bytes / _MIB
        return (
            f"{self.bytes / _MIB:.4f}, {mebibytes / elapsed_s:.4f}, {self.records}, "
            f"{records / elapsed_s:.4f}, {round((self.joined_s - self.begin_s) * 1000)}, "
            f"{round(fetch_s * 1000)}, {mebibytes / fetch_s:.4f}, {records / fetch_s:.4f}"
        )

    def copy(self) -> "_Count":
        """The figures as they are now."""
        twin = _Count(self.begin_s, self.joined_s)
        twin.records, twin.bytes, twin.last_s = self.records, self.bytes, self.last_s
        return twin

    def as_json(self) -> dict[str, Any]:
        """The figures for scripts."""
        fetch_s = max(self.last_s - self.joined_s, 1e-6)
        return {
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(fetch_s, 3),
            "records_per_second": round(self.records / fetch_s, 1),
            "mebibytes_per_second": round(self.bytes / _MIB / fetch_s, 3),
        }


def _read(consumer: "Consumer", count: _Count, options: dict[str, Any], *, details: bool) -> None:
    live = LiveLine()
    interval_s = options["reporting_interval"] / 1000
    number = options["num_records"]
    reported = count.copy()
    while number is None or count.records < number:
        at_most = _RECORDS_PER_READ
        if number is not None:
            at_most = min(at_most, number - count.records)
        records = consumer.read(at_most, options["timeout_ms"] / 1000)
        if not records:
            break
        count.records += len(records)
        for record in records:
            count.bytes += len(record.key or b"") + len(record.value or b"")
        count.last_s = time.perf_counter()
        if count.last_s - reported.last_s >= interval_s and details:
            print_line(f"{_moment_text(datetime.now().astimezone())}, 0, {count.line(reported)}")
            reported = count.copy()
        rate = count.records / max(count.last_s - count.joined_s, 1e-6)
        live.show(f"{count.records} records, {count.bytes / _MIB:.1f} MiB, {rate:.0f} records/sec")
    live.clear()
    if details and (count.records > reported.records or not reported.records):
        print_line(f"{_moment_text(datetime.now().astimezone())}, 0, {count.line(reported)}")


def _moment_text(moment: datetime) -> str:
    """Local time as Kafka's tool writes it."""
    return moment.strftime("%Y-%m-%d %H:%M:%S:") + f"{moment.microsecond // 1000:03d}"

"""``make bench``: every benchmark, or those that are named; figures, no verdict by exit status."""

import importlib
import sys

from benchmarks.report import Report

ALL = (
    "broker_frames",
    "client_library",
    "start_up",
    "durable_produce",
    "recovery",
    "many_partitions",
    "loop_turns",
    "compaction",
    "retention",
    "beside_kafka",
)


def main() -> None:
    report = Report()
    for name in sys.argv[1:] or ALL:
        print(f"{name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").run(report)
    report.print()


main()

"""The figures of the benchmarks, and their lines that scripts parse."""

import re

from seglog.clients.cli.latencies import Latencies

KAFKAS_LINE = re.compile(
    r"(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, "
    r"([\d.]+) ms max latency, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th\."
)


def test_percentiles_are_off() -> None:
    latencies = Latencies()
    for number in range(1, 1001):
        latencies.add(float(number), 1, 1024)
    assert [latencies.percentile_ms(share) for share in (0.5, 0.95, 0.99, 0.999)] == [
        500.0,
        950.0,
        990.0,
        999.0,
    ]
    assert latencies.mean_ms == 500.5
    assert latencies.max_ms == 1000.0


def test_records_of_one_acknowledgement_count_once() -> None:
    latencies = Latencies()
    latencies.add(1.0, 99, 99)
    latencies.add(500.0, 1, 1)
    assert latencies.percentile_ms(0.99) == 1.0
    assert latencies.percentile_ms(0.999) == 500.0
    assert latencies.count == latencies.bytes == 100


def test_a_script_that_parses_kafkas_line_finds_nothing() -> None:
    latencies = Latencies()
    latencies.add(2.25, 1000, 1048576)
    match = KAFKAS_LINE.fullmatch(latencies.total_line(2.0))
    assert match is not None
    assert match.groups() == ("1000", "500.000000", "0.50", "2.25", "2.25", "2", "2", "2", "2")
    assert latencies.window_line(2.0) == (
        "1000 records sent, 500.0 records/sec (0.50 MB/sec), 2.2 ms avg latency, "
        "2.2 ms max latency."
    )


def test_nothing_acknowledged_is_divided_by() -> None:
    assert Latencies().total_line(1.0).startswith("0 records sent, 0.000000 records/sec")
    assert Latencies().as_json(1.0)["latency_ms"]["p99.9"] == 0.0

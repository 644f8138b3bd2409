"""Families with very many series: the same text as from prometheus-client."""

from prometheus_client import CollectorRegistry, generate_latest

from seglog.broker.monitoring.exposition import iter_metrics
from seglog.broker.monitoring.families import Family, Histogram, counter, gauge
from seglog.broker.monitoring.wide_families import WIDE, is_wide, wide_text


class Families:
    """A collector of prometheus-client."""

    def __init__(self, families: list[Family]) -> None:
        self.collect = lambda: iter_metrics(families)


def test_text_is_another_one() -> None:
    """C072: names, order and escaping of labels, values, and series without a label."""
    families = [
        gauge("g", "A \\ and\na line.", "topic", "partition")
        .add(1, "a", "0")
        .add(2.5, 'we"ird\n\\', "1")
        .add(-1, "a", "2"),
        gauge("h", "Same labels.", "topic", "partition").add(999_999, "a", "0"),
        gauge("o", "Other labels.", "partition", "topic").add(7, "0", "a"),
        counter("c", "Doc.", "topic").add(3, "a").add(float("inf"), "b"),
    ]
    families[-1].samples.append(((), 4))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(families))  # type: ignore[arg-type] # all that is needed of one
    expected = generate_latest(registry).decode().replace("+Inf", "inf")
    assert wide_text(families) == expected


def test_large_numbers_lose_digits() -> None:
    """An offset is exact up to 2**53."""
    text = wide_text([gauge("g", "Doc.").add(2**53 - 1)])
    assert float(text.split()[-1]) == 2**53 - 1


def test_only_families_with_many_series_are_wide() -> None:
    """A histogram is left to prometheus-client."""
    narrow, wide = gauge("g", "Doc.", "a"), gauge("g", "Doc.", "a")
    for number in range(WIDE):
        wide.add(number, str(number))
    assert is_wide(wide)
    assert not is_wide(narrow)
    histogram = Family("h", "histogram", "Doc.", ("a",))
    for number in range(WIDE):
        histogram.add(Histogram((1.0,), (0, 0), 0), str(number))
    assert not is_wide(histogram)

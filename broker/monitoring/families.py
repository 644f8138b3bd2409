"""A metric as plain data, read on the event-loop thread and rendered in another one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from seglog.broker.runtime.durations import LATENCY_BOUNDS_SECONDS, Durations

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"
_NS_PER_SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Histogram:
    """The value of one series of a histogram.

    Attributes:
        counts: how many observations each bucket has; the last one is over all bounds.
    """

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


Sample = tuple[tuple[str, ...], float | Histogram]
"""The values of the labels, and that of the series."""


@dataclass(slots=True)
class Family:
    """One metric with all its series; a counter is named without ``_total``."""

    name: str
    kind: str
    documentation: str
    labels: tuple[str, ...] = ()
    samples: list[Sample] = field(default_factory=list)

    def add(self, value: float | Histogram, *label_values: str) -> "Family":
        """Add a series; returns the family itself."""
        self.samples.append((label_values, value))
        return self


def histogram_of(durations: Durations) -> Histogram:
    """Durations as a sample, in seconds."""
    return Histogram(
        LATENCY_BOUNDS_SECONDS, tuple(durations.buckets), durations.total_ns / _NS_PER_SECOND
    )


def counter(name: str, documentation: str, *labels: str) -> Family:
    """A number that only grows."""
    return Family(name, COUNTER, documentation, labels)


def gauge(name: str, documentation: str, *labels: str) -> Family:
    """A number that goes up and down."""
    return Family(name, GAUGE, documentation, labels)

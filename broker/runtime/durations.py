"""How long something took, as a histogram of plain numbers: no objects, no locks.

One owner, the event-loop thread. A histogram of prometheus-client costs ten times as much an
observation.
"""

from bisect import bisect_left
from typing import Final

LATENCY_BOUNDS_SECONDS: Final = (
    0.00005,
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
"""Upper bounds of the buckets, inclusive; one more bucket takes longer durations."""
QUANTILES: Final = (0.5, 0.75, 0.95, 0.99, 0.999)
"""Those that Kafka's exporter shows."""
_BOUNDS_NS: Final = tuple(round(bound * 1_000_000_000) for bound in LATENCY_BOUNDS_SECONDS)
_NS_PER_MS: Final = 1_000_000


class Durations:
    """Durations of one kind.

    Attributes:
        count: how many there were.
        total_ns: their sum.
        buckets: how many were within each bound and above the one before.
    """

    __slots__ = ("buckets", "count", "total_ns")

    def __init__(self) -> None:
        self.count = 0
        self.total_ns = 0
        self.buckets = [0] * (len(_BOUNDS_NS) + 1)

    def observe(self, elapsed_ns: int) -> None:
        """Count one more."""
        self.count += 1
        self.total_ns += elapsed_ns
        self.buckets[bisect_left(_BOUNDS_NS, elapsed_ns)] += 1

    def quantile_ns(self, share: float) -> float:
        """An estimate of the duration that this share of all stayed within."""
        rank = share * self.count
        seen = 0
        low = 0
        for bound, count in zip((*_BOUNDS_NS, _BOUNDS_NS[-1]), self.buckets, strict=True):
            if count and seen + count >= rank:
                return low + (bound - low) * (rank - seen) / count
            seen += count
            low = bound
        return 0.0

    def quantiles_ms(self) -> list[tuple[str, float]]:
        """Estimates in milliseconds for all of ``QUANTILES``, each with its name."""
        return [(str(share), self.quantile_ns(share) / _NS_PER_MS) for share in QUANTILES]

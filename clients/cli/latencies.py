"""Latencies of many records in little memory, and the line that Kafka's tool prints of them."""

from typing import Any, Final

_PERCENTILES: Final = (("50th", 0.5), ("95th", 0.95), ("99th", 0.99), ("99.9th", 0.999))
_MIB: Final = 1024 * 1024
_STEPS_PER_MS: Final = 10


class Latencies:
    """Counts latencies in steps of 0.1 ms; the mean and the greatest one are exact."""

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self._sum_ms = 0.0
        self._max_ms = 0.0
        self._counts: dict[int, int] = {}

    def add(self, latency_ms: float, records: int, size_bytes: int) -> None:
        """Note that ``records`` of together ``size_bytes`` took so long."""
        self.count += records
        self.bytes += size_bytes
        self._sum_ms += latency_ms * records
        self._max_ms = max(self._max_ms, latency_ms)
        step = int(latency_ms * _STEPS_PER_MS)
        self._counts[step] = self._counts.get(step, 0) + records

    @property
    def mean_ms(self) -> float:
        """The mean, 0 where there is none."""
        return self._sum_ms / self.count if self.count else 0.0

    @property
    def max_ms(self) -> float:
        """The greatest one."""
        return self._max_ms

    def percentile_ms(self, share: float) -> float:
        """The latency that ``share`` of the records do not exceed, to 0.1 ms."""
        needed = share * self.count
        seen = 0
        for step, count in sorted(self._counts.items()):
            seen += count
            if seen >= needed:
                return step / _STEPS_PER_MS
        return 0.0

    def window_line(self, elapsed_s: float) -> str:
        """The line of a reporting interval."""
        return (
            f"{self.count} records sent, {self.count / elapsed_s:.1f} records/sec "
            f"({self.bytes / elapsed_s / _MIB:.2f} MB/sec), {self.mean_ms:.1f} ms avg latency, "
            f"{self.max_ms:.1f} ms max latency."
        )

    def total_line(self, elapsed_s: float) -> str:
        """The last line, as scripts know it."""
        percentiles = ", ".join(
            f"{round(self.percentile_ms(share))} ms {name}" for name, share in _PERCENTILES
        )
        return (
            f"{self.count} records sent, {self.count / elapsed_s:.6f} records/sec "
            f"({self.bytes / elapsed_s / _MIB:.2f} MB/sec), {self.mean_ms:.2f} ms avg latency, "
            f"{self.max_ms:.2f} ms max latency, {percentiles}."
        )

    def as_json(self, elapsed_s: float) -> dict[str, Any]:
        """The same for scripts."""
        return {
            "records": self.count,
            "bytes": self.bytes,
            "seconds": round(elapsed_s, 3),
            "records_per_second": round(self.count / elapsed_s, 1),
            "mebibytes_per_second": round(self.bytes / elapsed_s / _MIB, 3),
            "latency_ms": {
                "mean": round(self.mean_ms, 3),
                "max": round(self.max_ms, 3),
                **{f"p{share * 100:g}": self.percentile_ms(share) for _, share in _PERCENTILES},
            },
        }

"""Metrics as text, by prometheus-client, in a worker thread.

The numbers are read on the event-loop thread, which takes milliseconds; turning them into text and
compressing it takes hundreds for thousands of partitions, so that happens elsewhere. Scrapes that
come while one is being rendered share its result.
"""

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from seglog.broker.monitoring.families import COUNTER, HISTOGRAM, Family, Histogram
from seglog.broker.monitoring.wide_families import is_wide, wide_text

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

# Lighter than the default: a scrape is read once, and compressing costs more than sending.
_GZIP_LEVEL: Final = 3
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

ReadFamilies = Callable[[], list[Family]]
RunInThread = Callable[[Callable[[], tuple[bytes, bytes]]], Awaitable[tuple[bytes, bytes]]]


class _FamilyCollector:
    """Gives prometheus-client the families of one reading."""

    def __init__(self) -> None:
        self.families: list[Family] = []

    def collect(self) -> "Iterator[Metric]":
        """All metrics."""
        return iter_metrics(self.families)


class MetricsPage:
    """The text of all metrics, plain and compressed.

    Args:
        read: reads the numbers; called on the event-loop thread.
        run: runs a blocking function in a thread.
    """

    def __init__(self, read: ReadFamilies, run: RunInThread) -> None:
        self._read = read
        self._run = run
        self._collector = _FamilyCollector()
        self._registry: CollectorRegistry | None = None
        self._rendering: asyncio.Future[tuple[bytes, bytes]] | None = None

    async def render(self, *, compressed: bool) -> bytes:
        """The page as it is now."""
        if self._rendering is None:
            self._rendering = asyncio.ensure_future(self._render())
            self._rendering.add_done_callback(self._rendered)
        # Shielded: a scraper that leaves must not take the page from those who share it.
        plain, packed = await asyncio.shield(self._rendering)
        return packed if compressed else plain

    async def _render(self) -> tuple[bytes, bytes]:
        families = self._read()
        return await self._run(partial(self._to_text, families))

    def _rendered(self, _future: object) -> None:
        self._rendering = None

    def _to_text(self, families: list[Family]) -> tuple[bytes, bytes]:
        from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

        if self._registry is None:
            registry = CollectorRegistry(auto_describe=False)
            ProcessCollector(registry=registry)
            registry.register(self._collector)
            self._registry = registry
        self._collector.families = [each for each in families if not is_wide(each)]
        text = generate_latest(self._registry)
        self._collector.families = []
        text += wide_text(each for each in families if is_wide(each)).encode()
        return text, gzip.compress(text, _GZIP_LEVEL)


def iter_metrics(families: Iterable[Family]) -> "Iterator[Metric]":
    """Families as objects of prometheus-client."""
    from prometheus_client.metrics_core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    for family in families:
        metric: Any
        if family.kind == HISTOGRAM:
            metric = HistogramMetricFamily(family.name, family.documentation, labels=family.labels)
            for labels, value in family.samples:
                assert isinstance(value, Histogram)
                metric.add_metric(labels, buckets=_buckets(value), sum_value=value.total)
        else:
            make = CounterMetricFamily if family.kind == COUNTER else GaugeMetricFamily
            metric = make(family.name, family.documentation, labels=family.labels)
            for labels, value in family.samples:
                metric.add_metric(labels, value)
        yield metric


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in histogram.bounds), "+Inf"]
    return list(zip(bounds, accumulate(histogram.counts), strict=True))

"""Statistics of requests."""

import pytest

from seglog.broker.listeners.request_statistics import (
    RequestMetrics,
    RequestStatistics,
    errors_of,
    operation_name,
)
from seglog.broker.runtime.durations import LATENCY_BOUNDS_SECONDS
from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from support.native_samples import samples


def test_latency_lands_in_the_wrong_bucket() -> None:
    """Bounds are inclusive; what is longer than all of them has a bucket too."""
    statistics = RequestStatistics("Produce")
    statistics.observe(50_000)
    statistics.observe(50_001)
    statistics.observe(10_000_000_000)
    statistics.observe(99_000_000_000)
    assert statistics.buckets[0] == 1
    assert statistics.buckets[1] == 1
    assert statistics.buckets[-2:] == [1, 1]
    assert statistics.count == sum(statistics.buckets) == 4
    assert statistics.total_ns == 109_000_100_001


def test_quantile_is_outside_its_bucket() -> None:
    """The estimate lies in the bucket that holds the rank, interpolated."""
    statistics = RequestStatistics("Produce")
    assert statistics.quantile_ns(0.99) == 0
    for _ in range(90):
        statistics.observe(80_000)
    for _ in range(10):
        statistics.observe(4_000_000)
    assert 50_000 <= statistics.quantile_ns(0.5) <= 100_000
    assert 2_500_000 <= statistics.quantile_ns(0.99) <= 5_000_000
    statistics.observe(99_000_000_000)
    assert statistics.quantile_ns(1.0) == LATENCY_BOUNDS_SECONDS[-1] * 1e9


def test_errors_inside_a_response_are_not_counted() -> None:
    """Both the error of the whole and those of single results, for every response type."""
    response = api.ProduceResponse(
        [
            api.ProducePartitionResult("a", 0),
            api.ProducePartitionResult("a", 1, ErrorCode.CORRUPT_MESSAGE),
            api.ProducePartitionResult("a", 2, ErrorCode.CORRUPT_MESSAGE),
        ]
    )
    statistics = RequestStatistics("Produce")
    assert statistics.count_response(response)
    assert not statistics.count_response(api.ProduceResponse([]))
    assert statistics.errors == {0: 1, ErrorCode.CORRUPT_MESSAGE: 2}


@pytest.mark.parametrize("key", samples(), ids=lambda key: key.name)
def test_response_type_breaks_the_counting(key: api.ApiKey) -> None:
    """Every response can be asked for its errors; all samples carry at least one."""
    _, response = samples()[key]
    assert errors_of(response)


def test_operation_has_a_name_that_dashboards_do_not_know() -> None:
    """Names are Kafka's."""
    assert operation_name(2) == "ListOffsets"
    assert operation_name(0) == "Produce"
    assert operation_name(12345) == "Unknown"
    metrics = RequestMetrics()
    assert metrics.of(1) is metrics.of(1)
    assert [statistics.name for statistics in metrics.all()] == ["Fetch"]

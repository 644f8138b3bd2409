"""What the batch source plans, asked directly; the broker is real."""

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual

from seglog.clients.spark.batch_reader import SeglogBatchReader
from seglog.clients.spark.cluster import Cluster
from seglog.clients.spark.pushdown import SeglogPushdownReader
from seglog.clients.spark.sentinel_dates import SENTINEL_DATES
from seglog.clients.spark.source_options import SourceOptions, read_source_options
from seglog.clients.spark.splits import RangeSplit
from seglog.clients.testing import RunningBroker
from seglog.protocol.types import LATEST_TIMESTAMP, IsolationLevel, TopicPartition
from support.spark_queries import fill, fill_raw

STAMP = 1_700_000_000_000


def options_of(address: str, topic: str, **options: Any) -> SourceOptions:
    given = {"bootstrap.servers": address, "subscribe": topic}
    given |= {name: str(value) for name, value in options.items()}
    return read_source_options(given, streaming=False)


def planned(reader: SeglogBatchReader) -> dict[int, tuple[int, int]]:
    """(start, end) of each partition that is read."""
    return {
        each.partition.partition: (each.start, each.end)
        for split in reader.partitions()
        if isinstance(split, RangeSplit)
        for each in split.ranges
    }


@pytest.fixture
def writes_meanwhile(monkeypatch: pytest.MonkeyPatch, broker: RunningBroker) -> list[int]:
    """Each question about offsets is followed by a write; returns the timestamps asked for."""
    asked: list[int] = []
    list_offsets = Cluster.list_offsets

    def ask(
        cluster: Cluster, questions: Mapping[TopicPartition, int], isolation: IsolationLevel
    ) -> dict[TopicPartition, int]:
        found = list_offsets(cluster, questions, isolation)
        asked.extend(questions.values())
        for partition in questions:
            fill(broker.address, partition.topic, range(5), partition.partition)
        return found

    monkeypatch.setattr(Cluster, "list_offsets", ask)
    return asked


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"startingTimestamp": 0},
        {"endingTimestamp": 4_000_000_000_000},
        {"startingOffsetsByTimestamp": '{"TOPIC": {"0": 0}}'},
        {"startingOffsets": '{"TOPIC": {"0": 3}}'},
        {"startingOffsets": '{"TOPIC": {"0": -2}}', "endingOffsets": '{"TOPIC": {"0": -1}}'},
        {"endingOffsets": '{"TOPIC": {"0": 10}}'},
    ],
)
def test_a_topic_that_is_written_meanwhile_is_planned_up_to_one_answer(
    broker: RunningBroker,
    new_topic: Callable[..., str],
    writes_meanwhile: list[int],
    options: dict[str, Any],
) -> None:
    """P1: the end is asked for once, and no later answer is held against it."""
    topic = new_topic()
    fill(broker.address, topic, range(10))
    given = {
        name: value.replace("TOPIC", topic) if isinstance(value, str) else value
        for name, value in options.items()
    }
    start, end = planned(SeglogBatchReader(options_of(broker.address, topic, **given)))[0]
    assert start == (3 if "3" in str(options) else 0)
    assert 10 <= end <= 20
    assert writes_meanwhile.count(LATEST_TIMESTAMP) <= 1


def test_a_start_by_time_behind_the_end_leaves_nothing_to_read(
    broker: RunningBroker, new_topic: Callable[..., str], writes_meanwhile: list[int]
) -> None:
    """P1: the first record since then was written after the end was asked for."""
    topic = new_topic()
    fill_raw(broker.address, topic, [(STAMP, None, b"old", ())])
    reader = SeglogBatchReader(
        options_of(
            broker.address,
            topic,
            startingTimestamp=STAMP + 1,
            startingOffsetsByTimestampStrategy="latest",
        )
    )
    assert planned(reader) == {}
    assert writes_meanwhile


@pytest.mark.parametrize("year", [1000, 1960, 1969])
@pytest.mark.parametrize("kind", [EqualTo, GreaterThan, GreaterThanOrEqual])
def test_a_filter_on_times_before_1970_reads_all_that_spark_may_keep(
    broker: RunningBroker,
    new_topic: Callable[..., str],
    year: int,
    kind: type[EqualTo | GreaterThan | GreaterThanOrEqual],
) -> None:
    """P5: records before 1970 and without a timestamp, which Spark reads as one just before."""
    topic = new_topic()
    stamps = [*range(-10_000, 10_000, 1000), -1]
    fill_raw(broker.address, topic, [(stamp, None, b"", ()) for stamp in stamps])
    reader = SeglogPushdownReader(options_of(broker.address, topic, filterPushdown="true"))
    condition: Filter = kind(
        ("timestamp",), datetime(year, 12, 31, 23, 59, 59, 900_000, tzinfo=UTC)
    )
    assert list(reader.pushFilters([condition])) == [condition]
    assert planned(reader) == {0: (0, 21)}


def test_a_filter_on_times_since_1970_leaves_out_what_is_older(
    broker: RunningBroker, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    for stamp in (-5, -1, 0, 5):
        fill_raw(broker.address, topic, [(stamp, None, b"", ())])
    for since, first in (
        (datetime(1970, 1, 1, tzinfo=UTC), 2),
        (datetime(1971, 1, 1, tzinfo=UTC), 4),
    ):
        reader = SeglogPushdownReader(options_of(broker.address, topic, filterPushdown="true"))
        list(reader.pushFilters([GreaterThanOrEqual(("timestamp",), since)]))
        assert planned(reader) == ({0: (first, 4)} if first < 4 else {})


def test_a_filter_on_a_time_that_python_does_not_have_is_taken_as_the_last_one() -> None:
    """P12: 9999-12-31 23:59:59 in New York is in the year 10000 in UTC."""
    filters = pytest.importorskip("pyspark.sql.worker.data_source_pushdown_filters")
    from pyspark.sql.variant_utils import VariantUtils

    def given(microseconds: int) -> Any:
        value = bytes([VariantUtils.TIMESTAMP << 2]) + microseconds.to_bytes(
            8, "little", signed=True
        )
        encoded = {"value": base64.b64encode(value), "metadata": base64.b64encode(bytes([1, 0, 0]))}
        return filters.deserializeFilter(
            {
                "name": "LessThan",
                "columnPath": ["timestamp"],
                "value": encoded,
                "isNegated": False,
            }
        )

    late, early = 253_402_318_799_000_000, -62_135_596_800_000_001
    with pytest.raises(OverflowError):
        given(late)
    SENTINEL_DATES.begin()
    try:
        assert given(late).value == datetime.max.replace(tzinfo=UTC)
        assert given(early).value == datetime.min.replace(tzinfo=UTC)
        assert given(5_000_000).value == datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    finally:
        SENTINEL_DATES.end()
    with pytest.raises(OverflowError):
        given(early)

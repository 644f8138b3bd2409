"""Options are refused when a query is made, not when it runs (C068, C069)."""

import json
from typing import Any

import pytest

from seglog.clients.errors import ConfigurationError
from seglog.clients.spark.sink_options import read_sink_options
from seglog.clients.spark.source_options import SourceOptions, read_source_options
from seglog.protocol.types import TopicPartition


def source(streaming: bool = True, **options: Any) -> SourceOptions:
    given = {"bootstrap.servers": "localhost:1", "subscribe": "t"}
    given.update((name.lower(), str(value)) for name, value in options.items())
    return read_source_options(given, streaming=streaming)


@pytest.mark.parametrize(
    "name",
    ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "minPartitions", "maxRecordsPerPartition"],
)
@pytest.mark.parametrize("value", ["0", "-1", "x", "", "1.5"])
def test_a_limit_of_nothing_or_nonsense_is_taken(name: str, value: str) -> None:
    """C068."""
    with pytest.raises(ConfigurationError, match=name):
        source(**{name: value})


def test_a_misspelled_option_is_silently_without_effect() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'maxOffsetsPerTrigger'"):
        source(maxOffsetPerTrigger=5)


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": ""},
        {"subscribePattern": "a.*"},
        {"assign": '{"t": [0]}'},
        {"startingOffsets": "newest"},
        {"startingOffsets": '{"t": {"0": -3}}'},
        {"startingOffsets": '{"t": {"zero": 1}}'},
        {"startingOffsets": '{"t": 5}'},
        {"startingOffsets": "{"},
        {"startingTimestamp": "yesterday"},
        {"endingOffsets": "latest"},
        {"failOnDataLoss": "perhaps"},
        {"columns": "value,size"},
        {"minOffsetsPerTrigger": 10, "maxOffsetsPerTrigger": 5},
        {"maxTriggerDelay": "soon"},
        {"isolation": "serializable"},
        {"kafka.security.protocol": "SSL"},
    ],
)
def test_options_that_cannot_be_right_start_a_stream(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        source(**options)


@pytest.mark.parametrize(
    "options", [{"startingOffsets": "latest"}, {"endingOffsets": '{"t": {"0": -2}}'}]
)
def test_options_that_cannot_be_right_start_a_batch(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        source(streaming=False, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"startingTimestamp": 1_700_000_000},
        {"startingOffsetsByTimestamp": '{"t": {"0": 1700000000}}'},
    ],
)
def test_a_time_in_seconds_begins_in_1970(options: dict[str, Any]) -> None:
    """C069."""
    with pytest.raises(ConfigurationError, match="seconds"):
        source(**options)


def test_names_of_sparks_kafka_source_are_not_known() -> None:
    options = read_source_options(
        {
            "kafka.bootstrap.servers": "a:1,b:2",
            "subscribepattern": "a.*",
            "startingtimestamp": "5",
            "startingoffsets": "earliest",
            "includeheaders": "TRUE",
            "groupidprefix": "x",
            "maxtriggerdelay": "2m",
            "kafka.isolation.level": "read_committed",
        },
        streaming=True,
    )
    assert [str(server) for server in options.servers] == ["a:1", "b:2"]
    assert options.starting.timestamp_ms == 5  # a timestamp is stronger than offsets
    assert options.columns[-1] == "headers"
    assert options.max_trigger_delay_ms == 120_000


def test_what_a_progress_report_shows_cannot_be_given_as_start() -> None:
    shown = json.dumps({"@ids": {"t": "00"}, "t": {"0": 5, "1": -2}})
    offsets = source(startingOffsets=shown).starting.offsets
    assert offsets == {TopicPartition("t", 0): 5, TopicPartition("t", 1): -2}


def test_the_default_start_is_that_of_the_other_kind_of_query() -> None:
    assert source().starting.word == "latest"
    assert source(streaming=False).starting.word == "earliest"


@pytest.mark.parametrize(
    "options", [{}, {"topic": "t", "acks": "2"}, {"compresion": "zstd"}, {"batchBytes": "0"}]
)
def test_a_sink_takes_options_that_cannot_be_right(options: dict[str, str]) -> None:
    given = {"bootstrap.servers": "localhost:1"} if options else {}
    with pytest.raises(ConfigurationError):
        read_sink_options(given | options)

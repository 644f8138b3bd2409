"""Options are refused when a query is made, not when it runs (C068, C069)."""

import json
from typing import Any

import pytest
from pyspark.sql.types import StructType

from seglog.clients.errors import ConfigurationError
from seglog.clients.spark.sink_options import find_columns, read_sink_options
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


KAFKA_OPTIONS = {
    "kafka.security.protocol": "plaintext",
    "kafka.session.timeout.ms": "45000",
    "kafka.max.poll.records": "500",
    "kafka.linger.ms": "5",
    "kafka.ssl.truststore.location": "/trust",
    "kafka.metrics.sample.window.ms": "1",
    "kafka.group.id": "g",
    "kafka.acks": "all",
}


def test_settings_of_kafkas_clients_that_cannot_matter_are_taken() -> None:
    """U34: jobs move by changing the format."""
    source(**KAFKA_OPTIONS)
    given = {"bootstrap.servers": "localhost:1", "topic": "t"}
    assert read_sink_options(given | KAFKA_OPTIONS) == read_sink_options(given)


@pytest.mark.parametrize(
    ("name", "value", "way_out"),
    [
        ("kafka.security.protocol", "SASL_SSL", "no TLS"),
        ("kafka.auto.offset.reset", "earliest", "startingOffsets"),
        ("kafka.value.deserializer", "x", "cast"),
        ("kafka.transactional.id", "x", "does not write in transactions"),
        ("kafka.partitioner.class", "x", "column partition"),
        ("kafka.made.up", "x", "did you mean"),
    ],
)
def test_settings_of_kafkas_clients_that_change_meaning_are_refused_by_name(
    name: str, value: str, way_out: str
) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name}.*{way_out}"):
        source(**{name: value})
    given = {"bootstrap.servers": "localhost:1", "topic": "t", name: value}
    with pytest.raises(ConfigurationError, match=rf"{name}.*{way_out}"):
        read_sink_options(given)


def test_columns_of_the_sink_are_found_in_any_case_and_once() -> None:
    options = read_sink_options({"bootstrap.servers": "localhost:1"})
    schema = StructType().add("KEY", "string").add("Value", "binary").add("TOPIC", "string")
    found = find_columns(schema, options)
    assert (found.key, found.value, found.topic) == (0, 1, 2)
    with pytest.raises(ConfigurationError, match="two columns 'value'"):
        find_columns(schema.add("VALUE", "string"), options)


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

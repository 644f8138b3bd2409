"""The options of the source, parsed once, where the query is planned."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from seglog.clients.config import Address, parse_addresses
from seglog.clients.errors import ConfigurationError
from seglog.clients.spark.connection_options import ConnectionOptions, read_connection_options
from seglog.clients.spark.kafka_options import take_kafka_options
from seglog.clients.spark.option_values import (
    OptionReader,
    boolean,
    choice,
    duration_ms,
    names,
    offset_maps,
    partition_lists,
    text,
    timestamp_maps,
    timestamp_ms,
    whole_number,
)
from seglog.clients.spark.schemas import COLUMNS, HEADERS
from seglog.protocol.types import IsolationLevel, TopicPartition

_SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
_WITHOUT_EFFECT: Final = (
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
_ISOLATION: Final = {
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
    "read_committed": IsolationLevel.READ_COMMITTED,
}


@dataclass(frozen=True)
class Subscription:
    """Which partitions are read: those of named topics, of matching topics, or exactly some.

    Attributes:
        topics: names, or empty.
        pattern: a regular expression that must match the whole name, or "".
        partitions: exactly these, or empty.
    """

    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True)
class Bound:
    """Where reading begins or ends, as the options say it.

    Attributes:
        option: the name under which it was given, "" for the default.
        offsets: for each partition (-1 latest, -2 earliest), or None.
        timestamps: for each partition, or None.
        timestamp_ms: for all partitions, or None.
        word: "earliest" or "latest", if nothing else is given.
    """

    option: str
    word: str = ""
    offsets: Mapping[TopicPartition, int] | None = None
    timestamps: Mapping[TopicPartition, int] | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """What ``format("seglog")`` can be told for reading; ``docs/spark.md`` describes each."""

    servers: tuple[Address, ...]
    connection: ConnectionOptions
    subscription: Subscription
    starting: Bound
    ending: Bound
    latest_if_no_timestamp: bool
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    isolation_level: IsolationLevel
    max_offsets_per_trigger: int | None
    max_bytes_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    coalesce_records: int
    driver_records: int
    filter_pushdown: bool
    batch_rows: int
    batch_bytes: int
    fetch_bytes: int
    check_crcs: bool


def read_source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Parse and check the options of a read.

    Raises:
        ConfigurationError: one is unknown, missing, malformed, or does not go with another.
    """
    reader = OptionReader(options)
    reader.ignore(_WITHOUT_EFFECT)
    no_addresses: tuple[Address, ...] = ()
    servers = reader.take(
        ("bootstrap.servers", "kafka.bootstrap.servers"), _addresses, no_addresses
    )
    if not servers:
        raise ConfigurationError("option bootstrap.servers is missing, expected host:port")
    ending = _read_ending(reader)
    if streaming and ending.option:
        raise ConfigurationError(f"{ending.option} has no meaning in a streaming query")
    found = SourceOptions(
        servers=servers,
        connection=read_connection_options(reader),
        subscription=_read_subscription(reader),
        starting=_read_starting(reader, "latest" if streaming else "earliest"),
        ending=ending,
        latest_if_no_timestamp=_read_strategy(reader) == "latest",
        fail_on_data_loss=reader.take("failOnDataLoss", boolean, True),
        columns=read_columns(reader),
        isolation_level=_ISOLATION[
            reader.take(
                ("isolation", "kafka.isolation.level"), choice(*_ISOLATION), "read_uncommitted"
            )
        ],
        max_offsets_per_trigger=_read_limit(reader, "maxOffsetsPerTrigger"),
        max_bytes_per_trigger=_read_limit(reader, "maxBytesPerTrigger"),
        min_offsets_per_trigger=_read_limit(reader, "minOffsetsPerTrigger"),
        max_trigger_delay_ms=reader.take("maxTriggerDelay", duration_ms, 15 * 60_000),
        min_partitions=_read_limit(reader, "minPartitions"),
        max_records_per_partition=_read_limit(reader, "maxRecordsPerPartition"),
        coalesce_records=reader.take("coalesceRecords", whole_number(0), 20_000),
        driver_records=reader.take("driverRecords", whole_number(0), 1000),
        filter_pushdown=reader.take("filterPushdown", boolean, False),
        batch_rows=reader.take("batchRows", whole_number(1, 1_000_000), 20_000),
        batch_bytes=reader.take("batchBytes", whole_number(1, 2**30), 4 * 2**20),
        fetch_bytes=reader.take("fetchBytes", whole_number(1, 2**30), 2**20),
        check_crcs=reader.take(("checkCrcs", "kafka.check.crcs"), boolean, True),
    )
    take_kafka_options(reader)
    reader.refuse_rest("the seglog source")
    _check_together(found, streaming=streaming)
    return found


def _addresses(_: str, value: str) -> tuple[Address, ...]:
    return parse_addresses(value)


def _check_together(options: SourceOptions, *, streaming: bool) -> None:
    smallest, largest = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if smallest is not None and largest is not None and smallest > largest:
        raise ConfigurationError(
            f"minOffsetsPerTrigger={smallest} is above maxOffsetsPerTrigger={largest}"
        )
    if not streaming and options.starting.word == "latest":
        raise ConfigurationError(
            "startingOffsets=latest would make a batch without rows; name offsets or a timestamp"
        )
    ending = options.ending
    first_ms, end_ms = options.starting.timestamp_ms, ending.timestamp_ms
    if first_ms is not None and end_ms is not None and end_ms < first_ms:
        raise ConfigurationError(f"endingTimestamp={end_ms} is before startingTimestamp={first_ms}")
    if ending.word == "earliest" or -2 in (ending.offsets or {}).values():
        raise ConfigurationError("endingOffsets cannot be earliest")


def _read_limit(reader: OptionReader, name: str) -> int | None:
    return reader.take(name, whole_number(1), None)


def _read_subscription(reader: OptionReader) -> Subscription:
    no_names: tuple[str, ...] = ()
    topics = reader.take("subscribe", names, no_names)
    pattern = reader.take("subscribePattern", text, "")
    partitions: frozenset[TopicPartition] = reader.take("assign", partition_lists, frozenset())
    given = [
        name
        for name, value in zip(_SUBSCRIPTIONS, (topics, pattern, partitions), strict=True)
        if value
    ]
    if len(given) != 1:
        raise ConfigurationError(
            f"give exactly one of {', '.join(_SUBSCRIPTIONS)}, not {len(given)} of them"
        )
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"subscribePattern={pattern!r}: {error}") from None
    return Subscription(topics, pattern, partitions)


def _read_strategy(reader: OptionReader) -> str:
    return reader.take("startingOffsetsByTimestampStrategy", choice("error", "latest"), "error")


def _read_starting(reader: OptionReader, default: str) -> Bound:
    return _read_bound(
        reader, "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets", default
    )


def _read_ending(reader: OptionReader) -> Bound:
    return _read_bound(
        reader, "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", "latest"
    )


def _read_bound(
    reader: OptionReader, timestamp: str, by_timestamp: str, offsets: str, default: str
) -> Bound:
    """The first of the three that is given; all three are read, so that none is malformed."""

    def as_timestamp(name: str, value: str) -> Bound:
        return Bound(name, timestamp_ms=timestamp_ms(name, value))

    def as_timestamps(name: str, value: str) -> Bound:
        return Bound(name, timestamps=timestamp_maps(name, value))

    def as_offsets(name: str, value: str) -> Bound:
        if value.strip().lower() in {"earliest", "latest"}:
            return Bound(name, value.strip().lower())
        if not value.lstrip().startswith("{"):
            raise ConfigurationError(f"{name}={value!r}: expected earliest, latest or JSON")
        return Bound(name, offsets=offset_maps(name, value))

    found = [
        reader.take(timestamp, as_timestamp, None),
        reader.take(by_timestamp, as_timestamps, None),
        reader.take(offsets, as_offsets, None),
    ]
    return next((bound for bound in found if bound is not None), Bound("", default))


def read_columns(reader: OptionReader) -> tuple[str, ...]:
    """The columns that a source is to have; raises ``ConfigurationError`` for unknown ones."""
    with_headers = reader.take("includeHeaders", boolean, False)
    every = COLUMNS if with_headers else tuple(name for name in COLUMNS if name != HEADERS)

    def chosen(name: str, value: str) -> tuple[str, ...]:
        by_lower_case = {column.lower(): column for column in COLUMNS}
        wanted = names(name, value.lower())
        unknown = [column for column in wanted if column not in by_lower_case]
        if unknown:
            raise ConfigurationError(f"{name}: no column {unknown[0]!r}, there are {COLUMNS}")
        return tuple(by_lower_case[column] for column in wanted)

    return reader.take("columns", chosen, every)

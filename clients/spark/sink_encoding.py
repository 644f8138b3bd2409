"""Batches for a log out of Spark's record batches: grouped and encoded in the kernel."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from seglog.clients.errors import InvalidRecordError
from seglog.clients.producer.identity import ProducerIdentity
from seglog.clients.spark.finished_batches import Tally
from seglog.clients.spark.sink_options import SinkColumns, SinkOptions
from seglog.protocol.records.batch import HEADER_BYTES, MAGIC, BatchHeader
from seglog.protocol.records.builder import finish_batch
from seglog.protocol.records.columns import (
    BinaryColumn,
    HeaderColumns,
    NumberColumn,
    RowColumns,
    encode_columns,
    place_rows,
)
from seglog.protocol.types import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TopicPartition,
)

Column = Any
"""An Arrow array; pyarrow has no types to check."""


class EncodedBatch(NamedTuple):
    """One batch for one partition."""

    partition: TopicPartition
    records: memoryview
    rows: int
    base_sequence: int = NO_SEQUENCE


class Destination(NamedTuple):
    """Where the rows of a record batch go.

    Attributes:
        topic: its name.
        partition_count: of the topic.
        keyless_partition: for rows without key and partition.
        now_ms: for rows without timestamp.
    """

    topic: str
    partition_count: int
    keyless_partition: int
    now_ms: int


def rows_by_topic(
    rows: pa.RecordBatch, columns: SinkColumns, options: SinkOptions
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of each topic; the option ``topic`` is stronger than the column.

    Raises:
        InvalidRecordError: a row without a topic.
    """
    if options.topic:
        yield options.topic, rows
        return
    assert columns.topic is not None
    names = rows.column(columns.topic)
    if names.null_count:
        raise InvalidRecordError("a row has a null topic, and there is no option 'topic'")
    try:
        distinct = names.unique().to_pylist()
    except UnicodeDecodeError as error:
        raise InvalidRecordError(f"a row has a topic that is no UTF-8: {error.object!r}") from error
    for name in distinct:
        if not name:
            raise InvalidRecordError("a row has an empty topic, and there is no option 'topic'")
        if len(distinct) == 1:
            yield name, rows
        else:
            yield name, rows.filter(pc.call_function("equal", [names, pa.scalar(name)]))


def tally_of(rows: pa.RecordBatch, columns: SinkColumns) -> Tally:
    """How many rows there are, and how many bytes their keys and values have."""
    size = 0
    for index in (columns.key, columns.value):
        if index is not None:
            lengths = pc.call_function("binary_length", [rows.column(index)])
            size += pc.call_function("sum", [lengths]).as_py() or 0
    return Tally(rows.num_rows, size)


def encode_rows(
    rows: pa.RecordBatch,
    columns: SinkColumns,
    options: SinkOptions,
    destination: Destination,
    identity: ProducerIdentity | None = None,
) -> Iterator[list[EncodedBatch]]:
    """Yield waves of batches with at most one for each partition, since a request takes no more.

    Args:
        rows: what to write; their order is kept in each partition.
        columns: where the columns are.
        options: of the sink.
        destination: where to.
        identity: numbers the batches, which must then be sent in the order in which they come.

    Raises:
        InvalidRecordError: a row asks for a partition that there is not, or has a header without
            key.
    """
    source = _Columns(rows, columns)
    topic, partition_count, keyless_partition, now_ms = destination
    try:
        order, starts = place_rows(
            rows.num_rows, source.key, source.partition, partition_count, keyless_partition
        )
        groups = [
            (TopicPartition(topic, number), starts[number], starts[number + 1])
            for number in range(partition_count)
            if starts[number] < starts[number + 1]
        ]
        while groups:
            wave, rest = [], []
            for partition, first, end in groups:
                header, batch, reached = source.encode(order, first, end, options, now_ms)
                count = reached - first
                if identity is not None and identity.is_idempotent:
                    numbers = identity.take(partition, count)
                    header = header._replace(
                        producer_id=numbers.producer_id,
                        producer_epoch=numbers.epoch,
                        base_sequence=numbers.base_sequence,
                    )
                records = memoryview(finish_batch(header, batch, options.codec))
                wave.append(EncodedBatch(partition, records, count, header.base_sequence))
                if reached < end:
                    rest.append((partition, reached, end))
            yield wave
            groups = rest
    except ValueError as error:
        row = source.row_with_keyless_header()
        if row is None:
            raise InvalidRecordError(f"topic {topic}: {error}") from error
        raise InvalidRecordError(
            f"topic {topic}: row {row} of {rows.num_rows} has a header without a key: give it one, "
            "or filter it out of the column headers"
        ) from error


class _Columns:
    """The buffers of the columns, as the kernel takes them."""

    def __init__(self, rows: pa.RecordBatch, columns: SinkColumns) -> None:
        def find(index: int | None) -> Column | None:
            return None if index is None else rows.column(index)

        self._rows = rows.num_rows
        self.key = _binary(find(columns.key))
        self._value = _binary(rows.column(columns.value))
        self.partition = _numbers(find(columns.partition))
        timestamps = find(columns.timestamp)
        if timestamps is not None and timestamps.type.unit != "us":
            timestamps = timestamps.cast(pa.timestamp("us", tz=timestamps.type.tz))
        self._timestamps = _numbers(timestamps)
        self._header_column = find(columns.headers)
        self._headers = _headers(self._header_column)

    def row_with_keyless_header(self) -> int | None:
        """The first row that has a header whose key is null."""
        if self._header_column is None:
            return None
        for row, pairs in enumerate(self._header_column.to_pylist()):
            if any(pair is None or pair["key"] is None for pair in pairs or ()):
                return row
        return None

    def encode(
        self, order: bytearray, first: int, end: int, options: SinkOptions, now_ms: int
    ) -> tuple[BatchHeader, bytearray, int]:
        """Header, space for it and records of some of ``order[first:end]``, and where they end."""
        batch, reached, base_timestamp, max_timestamp = encode_columns(
            RowColumns(self._rows, self.key, self._value, self._timestamps, self._headers, now_ms),
            order,
            first,
            end,
            options.batch_bytes,
            HEADER_BYTES,
        )
        count = reached - first
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            partition_leader_epoch=NO_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=0,
            last_offset_delta=count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            record_count=count,
        )
        return header, batch, reached


def _binary(column: Column | None) -> BinaryColumn | None:
    if column is None:
        return None
    cells: Column = column
    if column.type not in {pa.binary(), pa.string()}:
        cells = column.cast(pa.binary())  # large or view types, which a setting makes Spark send
    validity, offsets, data = cells.buffers()
    return len(cells), cells.offset, validity, offsets, data


def _numbers(column: Column | None) -> NumberColumn | None:
    if column is None:
        return None
    validity, values = column.buffers()
    return len(column), column.offset, validity, values


def _headers(column: Column | None) -> HeaderColumns | None:
    if column is None or column.null_count == len(column):
        return None
    lists: Column = column
    if not pa.types.is_list(column.type):
        lists = column.cast(pa.list_(column.type.value_type))
    validity, offsets = lists.buffers()[:2]
    # flatten() also makes the fields of a pair null that is null itself.
    names, values = lists.values.flatten()
    name_buffers, value_buffers = _binary(names), _binary(values)
    assert name_buffers is not None
    assert value_buffers is not None
    return (len(lists), lists.offset, validity, offsets), name_buffers, value_buffers

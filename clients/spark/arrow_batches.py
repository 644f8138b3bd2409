"""Record batches for Spark out of the batches of a log: buffers are filled in the kernel."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from seglog.clients.spark.schemas import HEADERS, arrow_schema
from seglog.protocol.records.batch import BatchHeader
from seglog.protocol.records.columns import (
    BinaryBuffers,
    ColumnBuffers,
    HeaderBuffers,
    RecordColumns,
)
from seglog.protocol.types import Buffer, TopicPartition


class RecordsArea(NamedTuple):
    """The records of one batch, inflated, and its header."""

    header: BatchHeader
    records: Buffer


class BatchAssembler:
    """Makes record batches out of the records of one partition.

    Args:
        partition: whose records come.
        columns: which columns the record batches have.
        batch_rows: at most so many rows in one.
        batch_bytes: one is full with so many bytes of keys, values and headers.
    """

    def __init__(
        self, partition: TopicPartition, columns: tuple[str, ...], batch_rows: int, batch_bytes: int
    ) -> None:
        self._partition = partition
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._batch_rows = batch_rows
        self._batch_bytes = batch_bytes
        self._records = RecordColumns("key" in columns, "value" in columns, HEADERS in columns)

    def add(self, areas: Iterable[RecordsArea], start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Add the records at offsets ``start`` to ``end``; yields what is full.

        Raises:
            RecordError: a batch whose records are not well formed.
        """
        records = self._records
        for header, area in areas:
            records.append(
                area,
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                header.append_time_ms,
                start,
                end,
            )
            if records.rows >= self._batch_rows or records.data_bytes >= self._batch_bytes:
                yield from self.finish()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield what is left; more may be added afterwards."""
        if not self._records.rows:
            return
        taken = self._records.take()
        whole = pa.RecordBatch.from_arrays(self._arrays(taken), schema=self._schema)
        for first in range(0, whole.num_rows, self._batch_rows):
            yield whole.slice(first, self._batch_rows)

    def _arrays(self, taken: ColumnBuffers) -> list[pa.Array]:
        rows, key, value, offsets, timestamps, timestamp_types, headers = taken
        made = {
            "offset": lambda: _numbers(pa.int64(), rows, offsets),
            "timestamp": lambda: _numbers(pa.timestamp("us", tz="UTC"), rows, timestamps),
            "timestampType": lambda: _numbers(pa.int32(), rows, timestamp_types),
            "topic": lambda: pa.repeat(pa.scalar(self._partition.topic, pa.string()), rows),
            "partition": lambda: pa.repeat(pa.scalar(self._partition.partition, pa.int32()), rows),
            "key": lambda: _binary(pa.binary(), rows, key),
            "value": lambda: _binary(pa.binary(), rows, value),
            HEADERS: lambda: _headers(rows, headers),
        }
        return [made[name]() for name in self._columns]


def _numbers(kind: pa.DataType, rows: int, values: bytearray) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(values)], 0)


def _binary(kind: pa.DataType, rows: int, buffers: BinaryBuffers | None) -> pa.Array:
    assert buffers is not None
    nulls, validity, offsets, data = buffers
    validity_buffer = pa.py_buffer(validity) if nulls else None
    return pa.Array.from_buffers(
        kind, rows, [validity_buffer, pa.py_buffer(offsets), pa.py_buffer(data)], nulls
    )


def _headers(rows: int, buffers: HeaderBuffers | None) -> pa.Array:
    assert buffers is not None
    nulls, validity, offsets, header_rows, keys, values, has_wide_keys = buffers
    names = _binary(pa.string(), header_rows, keys)
    if has_wide_keys:
        names = _valid_text(keys, header_rows)
    pairs = pa.StructArray.from_arrays(
        [names, _binary(pa.binary(), header_rows, values)], ["key", "value"]
    )
    return pa.Array.from_buffers(
        pa.list_(pairs.type),
        rows,
        [pa.py_buffer(validity) if nulls else None, pa.py_buffer(offsets)],
        nulls,
        0,
        [pairs],
    )


def _valid_text(keys: BinaryBuffers, rows: int) -> pa.Array:
    """Header keys that are not all ASCII; what is no UTF-8 is read as Java reads it."""
    raw = _binary(pa.binary(), rows, keys)
    try:
        return raw.cast(pa.string())  # checks that it is UTF-8
    except pa.ArrowInvalid:
        return pa.array(
            [name.decode(errors="replace") for name in raw.to_pylist()], type=pa.string()
        )

"""Record batches for Spark out of the batches of a log: buffers are filled in the kernel."""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from seglog.clients.spark.schemas import HEADERS, arrow_schema
from seglog.protocol.records.batch import RecordBatch
from seglog.protocol.records.columns import (
    BinaryBuffers,
    ColumnBuffers,
    HeaderBuffers,
    RecordColumns,
)
from seglog.protocol.types import Buffer, TopicPartition

PIECE_BYTES: Final = 16 * 2**20
"""Records of larger batches are looked through for places to cut, at about 1 us each."""


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
        self.batch_offset = 0
        """Where the batch begins that was added last, for the message if it is corrupt."""
        self._records = RecordColumns("key" in columns, "value" in columns, HEADERS in columns)

    def add(self, batches: Iterable[RecordBatch], start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Add the records at offsets ``start`` to ``end``; yields full batches.

        Batches are inflated one after the other, and one beyond ``PIECE_BYTES`` is taken in pieces:
        the memory held is one inflated batch, a piece, and ``batch_bytes``, however well records
        are compressed.

        Raises:
            RecordError: a batch that cannot be inflated, or whose records are not well formed.
        """
        for batch in batches:
            yield from self._add(batch, start, end)

    def _add(self, batch: RecordBatch, start: int, end: int) -> Iterator[pa.RecordBatch]:
        # For one batch alone: what it inflates to is gone before the next one is inflated.
        records, header = self._records, batch.header
        self.batch_offset = header.base_offset
        for piece, count in _pieces(batch.records_area(), header.record_count, PIECE_BYTES):
            records.append(
                piece,
                count,
                header.base_offset,
                header.base_timestamp,
                append_time=header.append_time_ms,
                from_offset=start,
                end_offset=end,
            )
            if records.rows >= self._batch_rows or records.data_bytes >= self._batch_bytes:
                yield from self.finish()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the rest; more may be added afterwards."""
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


class SmallBatchMerger:
    """Puts small record batches together: Spark spends as much on one of two rows as of thousands.

    Args:
        rows_max: more rows are not put into one.
        bytes_max: nor more bytes.
    """

    def __init__(self, rows_max: int, bytes_max: int) -> None:
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._held: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take one; yields full batches, in order."""
        if (
            self._rows + batch.num_rows > self._rows_max
            or self._bytes + batch.nbytes > self._bytes_max
        ):
            yield from self.finish()
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the rest."""
        held, self._held = self._held, []
        self._rows = self._bytes = 0
        if len(held) == 1:
            yield held[0]
        elif held:
            yield pa.Table.from_batches(held).combine_chunks().to_batches()[0]


def _pieces(area: Buffer, count: int, piece_bytes: int) -> Iterator[tuple[Buffer, int]]:
    """Yield the records of an area in pieces of about so many bytes, and how many each has."""
    view = memoryview(area)
    start = position = taken = 0
    if view.nbytes <= piece_bytes:
        yield area, count
        return
    for done in range(1, count):
        # The length of a record: a zigzag number in groups of seven bits.
        length = shift = 0
        while position < view.nbytes:
            byte = view[position]
            position += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        length = (length >> 1) ^ -(length & 1)
        if length < 0 or position + length > view.nbytes:
            break  # What cannot be is found, and told, by the decoder of all that is left.
        position += length
        if position - start >= piece_bytes:
            yield view[start:position], done - taken
            start, taken = position, done
    yield view[start:], count - taken


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
    """Header keys that are not all ASCII; bytes that are not UTF-8 are read as Java reads them."""
    raw = _binary(pa.binary(), rows, keys)
    try:
        return raw.cast(pa.string())  # checks that it is UTF-8
    except pa.ArrowInvalid:
        return pa.array(
            [name.decode(errors="replace") for name in raw.to_pylist()], type=pa.string()
        )

"""Producer state on disk: Kafka's ``.snapshot`` and the ``.window`` beside it.

``<offset>.snapshot`` is Kafka's file, byte for byte: the state of every producer after everything
below ``offset`` was applied. All integers are big-endian.

    int16 version (1), uint32 CRC-32C of all bytes from offset 6 on, int32 count, then entries of
    int64 producer id, int16 epoch, int32 last sequence, int64 last offset, int32 offset delta,
    int64 timestamp, int32 coordinator epoch, int64 first offset of the open transaction

It keeps one batch of each producer. A producer with five requests in flight may send any of its
last five again after a restart, so seglog writes a second file of the same name with the suffix
``.window``, which Kafka ignores and seglog can do without:

    int16 version (1), uint32 CRC-32C of all bytes from offset 6 on, int32 count, then entries of
    int64 producer id, int16 epoch, int64 broker time in ms when it was last heard of, int32 number
    of batches, then for each batch
        int32 last sequence, int64 last offset, int32 offset delta, int64 timestamp

A window that is missing, damaged or of another moment than its snapshot is left out: the log then
knows one batch per producer, as Kafka does.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.log.producer_entry import ProducerEntry, RetainedBatch
from seglog.protocol.checksum import crc32c

_VERSION: Final = 1
_FILE_HEADER: Final = struct.Struct(">hIi")
_CHECKED_FROM: Final = 6
_SNAPSHOT_ENTRY: Final = struct.Struct(">qhiqiqiq")
_WINDOW_ENTRY: Final = struct.Struct(">qhqi")
_WINDOW_BATCH: Final = struct.Struct(">iqiq")


class CorruptSnapshotError(StorageError):
    """A snapshot or window that fails its version, size or checksum; it can be done without."""


class ProducerWindow(NamedTuple):
    """The part of a producer's state that Kafka's snapshot has no room for."""

    epoch: int
    seen_ms: int
    batches: Sequence[RetainedBatch]


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Kafka's snapshot of these producers."""
    body = bytearray()
    count = 0
    for entry in entries:
        last = entry.batches[-1] if entry.batches else RetainedBatch(-1, -1, 0, -1)
        body += _SNAPSHOT_ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp_ms,
            entry.coordinator_epoch,
            -1 if entry.open_transaction_offset is None else entry.open_transaction_offset,
        )
        count += 1
    return _with_file_header(body, count)


def decode_snapshot(content: bytes) -> list[ProducerEntry]:
    """Read Kafka's snapshot; an entry without data batch gets an empty window.

    Raises:
        CorruptSnapshotError: wrong version, size or checksum.
    """
    count = _check_file_header(content)
    if len(content) != _FILE_HEADER.size + count * _SNAPSHOT_ENTRY.size:
        raise CorruptSnapshotError(f"{count} entries announced in {len(content)} bytes")
    entries = []
    for fields in _SNAPSHOT_ENTRY.iter_unpack(content[_FILE_HEADER.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp_ms, coordinator, txn_offset = fields
        entry = ProducerEntry(
            producer_id,
            epoch,
            coordinator_epoch=coordinator,
            last_timestamp_ms=timestamp_ms,
            open_transaction_offset=None if txn_offset < 0 else txn_offset,
        )
        if offset >= 0:
            entry.batches.append(RetainedBatch(sequence, offset, delta, timestamp_ms))
        entries.append(entry)
    return entries


def encode_window(entries: Iterable[ProducerEntry]) -> bytes:
    """The retained batches of these producers and when they were last heard of."""
    body = bytearray()
    count = 0
    for entry in entries:
        body += _WINDOW_ENTRY.pack(
            entry.producer_id, entry.epoch, entry.seen_ms, len(entry.batches)
        )
        for batch in entry.batches:
            body += _WINDOW_BATCH.pack(*batch)
        count += 1
    return _with_file_header(body, count)


def decode_window(content: bytes) -> dict[int, ProducerWindow]:
    """Read a window file: producer id to window.

    Raises:
        CorruptSnapshotError: wrong version, size or checksum.
    """
    count = _check_file_header(content)
    windows: dict[int, ProducerWindow] = {}
    position = _FILE_HEADER.size
    try:
        for _ in range(count):
            producer_id, epoch, seen_ms, batch_count = _WINDOW_ENTRY.unpack_from(content, position)
            position += _WINDOW_ENTRY.size
            batches = []
            for _ in range(batch_count):
                batches.append(RetainedBatch(*_WINDOW_BATCH.unpack_from(content, position)))
                position += _WINDOW_BATCH.size
            windows[producer_id] = ProducerWindow(epoch, seen_ms, batches)
    except struct.error as error:
        raise CorruptSnapshotError(f"{count} windows do not fit {len(content)} bytes") from error
    if position != len(content):
        raise CorruptSnapshotError(f"{len(content) - position} bytes after the last window")
    return windows


def _with_file_header(body: bytearray, count: int) -> bytes:
    checked = struct.pack(">i", count) + body
    return struct.pack(">hI", _VERSION, crc32c(checked)) + checked


def _check_file_header(content: bytes) -> int:
    """Check version and checksum; returns the announced number of entries."""
    if len(content) < _FILE_HEADER.size:
        raise CorruptSnapshotError(f"{len(content)} bytes are shorter than a header")
    version, stored_crc, count = _FILE_HEADER.unpack_from(content)
    if version != _VERSION:
        raise CorruptSnapshotError(f"version {version} instead of {_VERSION}")
    computed_crc = crc32c(content[_CHECKED_FROM:])
    if computed_crc != stored_crc:
        raise CorruptSnapshotError(f"checksum {stored_crc:#010x} instead of {computed_crc:#010x}")
    if count < 0:
        raise CorruptSnapshotError(f"{count} entries announced")
    return int(count)

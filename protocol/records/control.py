"""Control batches: the markers that end a transaction.

A marker is a batch of one record, 78 bytes long. The record's key is ``int16 version, int16 type``,
its value ``int16 version, int32 coordinator epoch``. A version below 0 is corruption, one above 0
is read as version 0. Types without a name here belong to Kafka's own metadata log and are ignored.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.batch import RecordBatch
from seglog.protocol.records.builder import build_batch
from seglog.protocol.types import NO_LEADER_EPOCH, NO_SEQUENCE

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


class ControlType(IntEnum):
    """The meaning of a control record."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class Marker(NamedTuple):
    """The end of a transaction of one producer."""

    control_type: ControlType
    coordinator_epoch: int
    producer_id: int
    producer_epoch: int
    offset: int
    timestamp_ms: int


def build_marker(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Build the batch that commits or aborts the producer's open transaction.

    Raises:
        ValueError: ``control_type`` is not COMMIT and not ABORT.
    """
    if control_type not in {ControlType.ABORT, ControlType.COMMIT}:
        raise ValueError(f"{control_type.name} does not end a transaction")
    return build_batch(
        [(timestamp_ms, _KEY.pack(0, control_type), _VALUE.pack(0, coordinator_epoch), ())],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        is_transactional=True,
        is_control=True,
        leader_epoch=leader_epoch,
    )


def read_control_type(key: bytes | None) -> ControlType | None:
    """Return the type in the key of a control record, None for an unknown type.

    Raises:
        RecordError: CORRUPT_MESSAGE if it is not the key of a control record.
    """
    if key is None or len(key) < _KEY.size:
        raise RecordError(ErrorCode.CORRUPT_MESSAGE, f"{key!r} is not the key of a control record")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise RecordError(ErrorCode.CORRUPT_MESSAGE, f"a control record has version {version}")
    try:
        return ControlType(number)
    except ValueError:
        return None


def read_marker(batch: RecordBatch) -> Marker | None:
    """Return the marker that a control batch holds.

    None if the batch was emptied by compaction or its record does not end a transaction.

    Raises:
        RecordError: CORRUPT_MESSAGE where the record is not well formed.
    """
    records = batch.records(from_offset=batch.header.base_offset)
    if not records:
        return None
    record = records[0]
    control_type = read_control_type(record.key)
    if control_type not in {ControlType.ABORT, ControlType.COMMIT}:
        return None
    value = record.value
    if value is None or len(value) < _VALUE.size:
        raise RecordError(
            ErrorCode.CORRUPT_MESSAGE,
            f"{value!r} at offset {record.offset} is not the value of a transaction marker",
        )
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise RecordError(ErrorCode.CORRUPT_MESSAGE, f"a transaction marker has version {version}")
    assert control_type is not None
    return Marker(
        control_type,
        coordinator_epoch,
        batch.header.producer_id,
        batch.header.producer_epoch,
        record.offset,
        record.timestamp_ms,
    )

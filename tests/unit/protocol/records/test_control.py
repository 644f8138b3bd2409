"""Markers that are not as they should be."""

import struct

import pytest

from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records import RecordBatch, build_batch, rebuild_batch
from seglog.protocol.records.control import (
    ControlType,
    build_marker,
    read_control_type,
    read_marker,
)
from support.batches import VECTORS, T

COMMIT_KEY = struct.pack(">hh", 0, 1)
EPOCH_7 = struct.pack(">hi", 0, 7)


def control_batch(key: bytes | None, value: bytes | None) -> RecordBatch:
    return RecordBatch(build_batch([(T, key, value, ())], is_control=True, is_transactional=True))


def test_a_marker_takes_more_than_78_bytes() -> None:
    assert len(VECTORS["commit marker"]) == 78


@pytest.mark.parametrize("control_type", [ControlType.LEADER_CHANGE, ControlType.KRAFT_VOTERS])
def test_another_control_type_is_written_as_marker(control_type: ControlType) -> None:
    with pytest.raises(ValueError, match=control_type.name):
        build_marker(
            control_type, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=T
        )


@pytest.mark.parametrize("number", [2, 6, 7, 99])
def test_an_unknown_control_type_stops_the_reader(number: int) -> None:
    assert read_marker(control_batch(struct.pack(">hh", 0, number), b"")) is None


def test_a_later_version_is_refused() -> None:
    marker = read_marker(
        control_batch(struct.pack(">hh", 3, 0) + b"more", struct.pack(">hi", 2, 7) + b"more")
    )
    assert marker is not None
    assert (marker.control_type, marker.coordinator_epoch) == (ControlType.ABORT, 7)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, EPOCH_7),
        (b"\0\0\0", EPOCH_7),
        (struct.pack(">hh", -1, 1), EPOCH_7),
        (COMMIT_KEY, None),
        (COMMIT_KEY, EPOCH_7[:5]),
        (COMMIT_KEY, struct.pack(">hi", -1, 7)),
    ],
    ids=["no key", "short key", "key version", "no value", "short value", "value version"],
)
def test_a_damaged_marker_is_read(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(RecordError) as caught:
        read_marker(control_batch(key, value))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_an_emptied_marker_stops_the_reader() -> None:
    """TXN-13."""
    emptied = RecordBatch(rebuild_batch(VECTORS["commit marker"], keep=[]))
    assert emptied.header.is_control
    assert read_marker(emptied) is None


def test_a_type_is_invented() -> None:
    assert read_control_type(struct.pack(">hh", 0, 50)) is None
    assert read_control_type(COMMIT_KEY) is ControlType.COMMIT

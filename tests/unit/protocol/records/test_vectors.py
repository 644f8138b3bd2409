"""The batches of tests/support/batches.py, byte for byte, both ways, with both kernels."""

import pytest

from seglog.protocol.records import Record, RecordBatch, build_batch, inspect_batch, rebuild_batch
from seglog.protocol.records.control import ControlType, Marker, build_marker, read_marker
from support.batches import VECTORS, T, record_fields

PRODUCER = {"producer_id": 1001, "producer_epoch": 3}


def test_a_plain_record_is_written_differently() -> None:
    built = build_batch([(T, b"k", b"v", [("h", b"x")])], leader_epoch=0)
    assert built == VECTORS["one record with a header"]


def test_a_plain_record_is_read_differently() -> None:
    batch = RecordBatch(VECTORS["one record with a header"])
    batch.check()
    assert batch.records("t", 2) == [Record("t", 2, 0, T, b"k", b"v", (("h", b"x"),))]


def test_records_of_a_producer_are_written_differently() -> None:
    records = [(T, b"a", b"1", ()), (T + 1500, b"b", None, ()), (T - 10, None, b"", ())]
    built = build_batch(records, base_offset=5, leader_epoch=4, base_sequence=7, **PRODUCER)
    assert built == VECTORS["three records of a producer"]


def test_records_of_a_producer_are_read_differently() -> None:
    batch = RecordBatch(VECTORS["three records of a producer"])
    batch.check()
    header = batch.header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1001, 3, 7)
    assert (header.last_offset, header.last_sequence, header.partition_leader_epoch) == (7, 9, 4)
    assert list(batch) == [
        Record("", -1, 5, T, b"a", b"1", ()),
        Record("", -1, 6, T + 1500, b"b", None, ()),
        Record("", -1, 7, T - 10, None, b"", ()),
    ]


@pytest.mark.parametrize("control_type", [ControlType.COMMIT, ControlType.ABORT])
def test_a_marker_differs(control_type: ControlType) -> None:
    vector = VECTORS[f"{control_type.name.lower()} marker"]
    built = build_marker(
        control_type,
        coordinator_epoch=7,
        timestamp_ms=T,
        base_offset=42,
        leader_epoch=4,
        **PRODUCER,
    )
    assert built == vector
    batch = RecordBatch(vector)
    batch.check()
    assert batch.header.is_control
    assert batch.header.is_transactional
    assert read_marker(batch) == Marker(control_type, 7, 1001, 3, 42, T)


def test_an_emptied_batch_is_written_differently() -> None:
    """KEEP-9: sequence, offsets and max timestamp survive when all records go."""
    records = record_fields(5, first_timestamp_ms=T - 4)
    before = build_batch(records, base_offset=10, leader_epoch=4, base_sequence=0, **PRODUCER)
    assert rebuild_batch(before, keep=[]) == VECTORS["emptied by compaction"]


def test_an_emptied_batch_is_read_differently() -> None:
    batch = RecordBatch(VECTORS["emptied by compaction"])
    batch.check()
    assert batch.records() == []
    assert (batch.header.base_offset, batch.header.last_offset) == (10, 14)
    inspection = inspect_batch(batch.view, from_client=False)
    assert (inspection.max_timestamp_ms, inspection.record_count) == (T, 0)


def test_a_delete_horizon_is_written_differently() -> None:
    horizon = T + 86_400_000
    vector = VECTORS["tombstone with delete horizon"]
    options = {"base_offset": 100, "leader_epoch": 4}
    assert build_batch([(T, b"k", None, ())], delete_horizon_ms=horizon, **options) == vector
    before = build_batch([(T, b"k", None, ())], **options)
    assert rebuild_batch(before, delete_horizon_ms=horizon) == vector


def test_a_delete_horizon_is_read_differently() -> None:
    batch = RecordBatch(VECTORS["tombstone with delete horizon"])
    batch.check()
    assert batch.header.delete_horizon_ms == T + 86_400_000
    assert batch.records() == [Record("", -1, 100, T, b"k", None, ())]


@pytest.mark.parametrize("name", VECTORS)
def test_rebuilding_without_change_changes_a_byte(name: str) -> None:
    assert rebuild_batch(VECTORS[name]) == VECTORS[name]

"""Kafka's snapshot file and the window file beside it."""

import logging
from pathlib import Path

import pytest

from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.log.producer_entry import ProducerEntry, RetainedBatch
from seglog.broker.storage.log.producer_snapshot import (
    CorruptSnapshotError,
    decode_snapshot,
    decode_window,
    encode_snapshot,
    encode_window,
)
from seglog.broker.storage.log.producer_snapshot_files import ProducerSnapshotFiles

T = 1_700_000_000_000
KAFKA_SNAPSHOT = bytes.fromhex(
    "0001d4af1d930000000100000000000003e9000300000009000000000000002a000000020000018bcfe56800"
    "00000007ffffffffffffffff"
)


def entry(producer_id: int = 1001, batches: int = 1, **values: int) -> ProducerEntry:
    made = ProducerEntry(producer_id, 3, coordinator_epoch=7, last_timestamp_ms=T, seen_ms=T + 5)
    for index in range(batches):
        last_sequence = 9 + 3 * index
        made.batches.append(RetainedBatch(last_sequence, 33 + last_sequence, 2, T))
    for name, value in values.items():
        setattr(made, name, value)
    return made


def test_snapshot_is_kafkas_byte_for_byte() -> None:
    """docs/storage-format.md 10."""
    assert encode_snapshot([entry()]) == KAFKA_SNAPSHOT
    [read] = decode_snapshot(KAFKA_SNAPSHOT)
    assert (read.producer_id, read.epoch, read.coordinator_epoch) == (1001, 3, 7)
    assert list(read.batches) == [RetainedBatch(9, 42, 2, T)]
    assert read.open_transaction_offset is None


def test_snapshot_restores_open_transactions_and_producers_without_data() -> None:
    """SNAP-3."""
    marker_only = ProducerEntry(5, 1, coordinator_epoch=2, last_timestamp_ms=T)
    transactional = entry(6, open_transaction_offset=40)
    read = {
        each.producer_id: each
        for each in decode_snapshot(encode_snapshot([marker_only, transactional]))
    }
    assert not read[5].batches
    assert read[6].open_transaction_offset == 40


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        bytes(56),
        KAFKA_SNAPSHOT[:28],
        KAFKA_SNAPSHOT + b"\0",
        b"\0\x63" + KAFKA_SNAPSHOT[2:],
        KAFKA_SNAPSHOT[:20] + b"\xff" + KAFKA_SNAPSHOT[21:],
    ],
    ids=["empty", "zeros", "half", "longer", "version 99", "flipped byte"],
)
def test_damaged_snapshot_is_recognised(damaged: bytes) -> None:
    """C029, SNAP-2."""
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(damaged)


def test_window_keeps_five_batches_of_each_producer() -> None:
    """C050: all of the last five batches are answerable after a restart."""
    content = encode_window([entry(batches=5), ProducerEntry(7, 0, seen_ms=T)])
    windows = decode_window(content)
    assert [batch.last_sequence for batch in windows[1001].batches] == [9, 12, 15, 18, 21]
    assert windows[1001].seen_ms == T + 5
    assert windows[7].batches == []
    for damaged in (b"", bytes(len(content)), content[:-1], content + b"\0"):
        with pytest.raises(CorruptSnapshotError):
            decode_window(damaged)


@pytest.fixture
def files(tmp_path: Path) -> ProducerSnapshotFiles:
    return ProducerSnapshotFiles(OsFileSystem(), str(tmp_path))


def test_load_returns_what_was_written(files: ProducerSnapshotFiles) -> None:
    files.write(43, [entry(batches=4)])
    loaded = files.load_newest(0, 100)
    assert loaded is not None
    offset, [read] = loaded
    assert offset == 43
    assert read.batches == entry(batches=4).batches
    assert read.seen_ms == T + 5


def test_load_falls_back_to_older_snapshot_when_newest_is_damaged(
    files: ProducerSnapshotFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SNAP-2: the damaged one is deleted and one line says so."""
    files.write(10, [entry(1)])
    files.write(20, [entry(2)])
    Path(files.snapshot_path(20)).write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        loaded = files.load_newest(0, 100)
    assert loaded is not None
    assert loaded[0] == 10
    assert files.offsets == [10]
    assert "00000000000000000020.snapshot" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "00000000000000000010.snapshot",
        "00000000000000000010.window",
    ]


@pytest.mark.parametrize("content", [None, b"", bytes(100)], ids=["missing", "empty", "zeros"])
def test_window_that_is_unusable_leaves_kafkas_one_batch(
    files: ProducerSnapshotFiles, content: bytes | None
) -> None:
    files.write(43, [entry(batches=4)])
    window = Path(files.window_path(43))
    window.unlink() if content is None else window.write_bytes(content)
    loaded = files.load_newest(0, 100)
    assert loaded is not None
    assert [batch.last_sequence for batch in loaded[1][0].batches] == [18]


def test_window_of_another_moment_is_not_believed(files: ProducerSnapshotFiles) -> None:
    """A broker of the other kind rewrote the snapshot and left our window behind."""
    files.write(43, [entry(batches=4)])
    Path(files.snapshot_path(43)).write_bytes(encode_snapshot([entry(batches=5)]))
    loaded = files.load_newest(0, 100)
    assert loaded is not None
    assert [batch.last_sequence for batch in loaded[1][0].batches] == [21]


def test_snapshots_outside_of_the_log_are_not_used(files: ProducerSnapshotFiles) -> None:
    """REC-14."""
    for offset in (10, 20, 30):
        files.write(offset, [])
    assert files.load_newest(31, 100) is None
    files.remove_outside(11, 25)
    assert files.offsets == [20]


def test_only_the_newest_snapshot_without_segment_survives(
    files: ProducerSnapshotFiles, tmp_path: Path
) -> None:
    """REC-14, SNAP-5: and no window stays without its snapshot."""
    for offset in (10, 15, 20, 33, 35):
        files.write(offset, [entry()])
    Path(files.snapshot_path(33)).unlink()
    reopened = ProducerSnapshotFiles(OsFileSystem(), str(tmp_path))
    reopened.remove_stray({0, 10, 20, 30})
    assert reopened.offsets == [10, 20, 35]
    assert len(list(tmp_path.iterdir())) == 6
    reopened.remove_stray({0, 10, 20, 30, 40})
    assert reopened.offsets == [10, 20]


def test_snapshot_counts_as_unsynced_until_a_flush_succeeded(files: ProducerSnapshotFiles) -> None:
    """ROLL-9, FLUSH-4."""
    files.write(10, [entry()])
    files.write(20, [])
    older, newer = [files.snapshot_path(10), files.window_path(10)], [files.snapshot_path(20)]
    assert files.unsynced_paths(15) == older
    assert files.unsynced_paths(20) == older + newer
    files.mark_synced(older)
    assert files.unsynced_paths(20) == newer

"""Checkpoints and ``partition.metadata``: format and damage."""

from pathlib import Path

import pytest

from seglog.broker.storage.errors import CorruptCheckpointError, DiskFullError
from seglog.broker.storage.files.checkpoint import (
    EpochEntry,
    LeaderEpochCheckpointFile,
    OffsetCheckpointFile,
    PartitionMetadataFile,
)
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.protocol.types import TopicPartition
from support.faulty_file_system import FaultyFileSystem

OFFSETS = {TopicPartition("b.x", 10): 7, TopicPartition("a", 0): 2**63 - 1}
TOPIC_ID = bytes(range(16))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recovery-point-offset-checkpoint"


@pytest.fixture
def checkpoint(path: Path) -> OffsetCheckpointFile:
    return OffsetCheckpointFile(OsFileSystem(), str(path))


def test_checkpoint_is_not_what_kafka_writes(checkpoint: OffsetCheckpointFile, path: Path) -> None:
    checkpoint.write(OFFSETS)
    assert path.read_text() == "0\n2\na 0 9223372036854775807\nb.x 10 7\n"
    assert checkpoint.read() == OFFSETS
    checkpoint.write({})
    assert path.read_text() == "0\n0\n"
    assert checkpoint.read() == {}


def test_lines_of_another_system_are_damage(checkpoint: OffsetCheckpointFile, path: Path) -> None:
    """Somebody has edited it, as Kafka's manual says: what delete-records took came back."""
    path.write_bytes(b"0\r\n2\r\nt 0 5\r\nt 1 7\r\n")
    assert checkpoint.read() == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 7}


@pytest.mark.parametrize("content", [b"", b"0\n", b"0\n0\n"])
def test_empty_checkpoint_is_taken_for_a_damaged_one(
    checkpoint: OffsetCheckpointFile, path: Path, content: bytes
) -> None:
    """Kafka makes checkpoints as empty files."""
    assert not checkpoint.exists()
    assert checkpoint.read(empty_ok=False) == {}
    path.write_bytes(content)
    assert checkpoint.read() == {}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (bytes(28), "NUL"),
        (b"0\n2\na 0 12\nb.x 1", "cut off"),
        (b"0\n2\na 0 12\n", "2 entries are announced, 1 are there"),
        (b"0\n1\na 0 12\nb 0 1\n", "1 entries are announced, 2 are there"),
        (b"99\n1\na 0 12\n", "version is 99"),
        (b"x\n1\na 0 12\n", "no version"),
        (b"0\nmany\na 0 12\n", "no number of entries"),
        (b"0\n1\na 0\n", "has not 3 fields"),
        (b"0\n1\na 0 1 2\n", "has not 3 fields"),
        (b"0\n1\na x 1\n", "no partition"),
        (b"0\n1\na 0 99999999999999999999\n", "no offset"),
        (b"0\n1\na 0 1e3\n", "no offset"),
        (b"0\n2\na 0 1\na 0 2\n", "twice"),
        (b"0\n1\n\xff 0 1\n", "not UTF-8"),
    ],
)
def test_damaged_checkpoint_is_read(
    checkpoint: OffsetCheckpointFile, path: Path, content: bytes, reason: str
) -> None:
    """C029: the error names the file and what is wrong with it."""
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match=reason) as caught:
        checkpoint.read()
    assert caught.value.path == str(path)


def test_lost_content_is_taken_for_no_content(checkpoint: OffsetCheckpointFile, path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(CorruptCheckpointError, match="it is empty"):
        checkpoint.read(empty_ok=False)


def test_every_cut_gives_something_else_than_the_whole(
    checkpoint: OffsetCheckpointFile, path: Path
) -> None:
    checkpoint.write(OFFSETS)
    whole = path.read_bytes()
    for length in range(3, len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptCheckpointError):
            checkpoint.read()


def test_full_disk_loses_the_old_checkpoint(path: Path) -> None:
    file_system = FaultyFileSystem()
    checkpoint = OffsetCheckpointFile(file_system, str(path))
    checkpoint.write(OFFSETS)
    file_system.calls.free_bytes = 3
    with pytest.raises(DiskFullError):
        checkpoint.write({})
    assert checkpoint.read() == OFFSETS


def test_epochs_that_descend_are_read(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    checkpoint = LeaderEpochCheckpointFile(OsFileSystem(), str(path))
    entries = [EpochEntry(0, 0), EpochEntry(3, 10), EpochEntry(4, 11)]
    checkpoint.write(entries)
    assert path.read_text() == "0\n3\n0 0\n3 10\n4 11\n"
    assert checkpoint.read() == entries
    for lines in ("1 0\n1 5\n", "1 5\n2 5\n", "2 0\n1 5\n", "1 -1\n2 5\n"):
        path.write_text(f"0\n2\n{lines}")
        with pytest.raises(CorruptCheckpointError):
            checkpoint.read()


def test_topic_id_is_not_what_kafka_writes(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    metadata = PartitionMetadataFile(OsFileSystem(), str(path))
    assert metadata.read() is None
    metadata.write(TOPIC_ID)
    assert path.read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert metadata.read() == TOPIC_ID
    path.write_text("version: 7\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n")
    assert metadata.read() == TOPIC_ID


@pytest.mark.parametrize(
    "content",
    [
        b"",
        bytes(40),
        b"version: 0\ntopic_id: AAECAwQFBgc",
        b"version: 0\n",
        b"topic_id: AAECAwQFBgcICQoLDA0ODw",
        b"version: -1\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: 0\ntopic_id: !AECAwQFBgcICQoLDA0ODw",
    ],
)
def test_damaged_topic_id_is_read(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "partition.metadata"
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match=r"partition\.metadata"):
        PartitionMetadataFile(OsFileSystem(), str(path)).read()

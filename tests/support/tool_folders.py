"""Data folders for tests of the offline tools: as a broker leaves them."""

from pathlib import Path

from seglog.broker.storage.directories.meta_properties import write_meta_properties
from seglog.broker.storage.files.checkpoint import (
    LeaderEpochCheckpointFile,
    OffsetCheckpointFile,
    PartitionMetadataFile,
)
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.files.layout import (
    CLEAN_SHUTDOWN_MARKER,
    LEADER_EPOCH_CHECKPOINT,
    LOCK_FILE,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
)
from seglog.broker.storage.log.log import Log
from seglog.config.log_config import LogConfig
from seglog.protocol.compression import Codec
from seglog.protocol.types import TopicPartition
from support.log_builder import NOW_MS, append, end_transaction, open_log

CONFIG = LogConfig(
    segment_bytes=4096, index_interval_bytes=200, segment_index_bytes=1200, retention_ms=-1
)
TOPIC_ID = bytes(range(16))
FILE_SYSTEM = OsFileSystem()


def fill(log: Log, batches: int = 60) -> None:
    """Batches of three records, every other one compressed, with rising timestamps."""
    for number in range(batches):
        append(
            log,
            [b"%d" % number, b"x" * 40, None],
            keys=[b"a", b"b", b"c"],
            timestamps_ms=NOW_MS + 10 * number,
            codec=Codec.ZSTD if number % 2 else Codec.NONE,
            now_ms=NOW_MS + 10 * number,
        )


def partition_folder(parent: Path, name: str = "flights-0") -> Path:
    """A closed log of several segments, with an aborted transaction."""
    folder = parent / name
    log = open_log(folder, CONFIG)
    fill(log)
    append(log, [b"lost"], producer_id=7, sequence=0, transactional=True)
    end_transaction(log, 7, commit=False)
    fill(log, 5)
    log.close()
    PartitionMetadataFile(FILE_SYSTEM, str(folder / PARTITION_METADATA)).write(TOPIC_ID)
    LeaderEpochCheckpointFile(FILE_SYSTEM, str(folder / LEADER_EPOCH_CHECKPOINT)).write([(0, 0)])
    return folder


def data_folder(parent: Path, *, clean: bool = True) -> Path:
    """A data folder with one partition, after an orderly stop or not."""
    data = parent / "data"
    data.mkdir()
    folder = partition_folder(data)
    end = max(segment_bases(folder)) + 1
    OffsetCheckpointFile(FILE_SYSTEM, str(data / RECOVERY_POINT_CHECKPOINT)).write(
        {TopicPartition("flights", 0): end if clean else 0}
    )
    write_meta_properties(FILE_SYSTEM, str(data), 0, "cluster", bytes([200] * 16))
    (data / LOCK_FILE).touch()
    if clean:
        (data / CLEAN_SHUTDOWN_MARKER).write_text('{"version":0,"brokerEpoch":1}')
    return data


def segment_bases(folder: Path) -> list[int]:
    """The base offsets of the segments in a partition's folder."""
    return sorted(int(path.stem) for path in folder.glob("*.log"))


def overwrite(path: Path, position: int, content: bytes) -> None:
    """Damage a file; a negative position counts from its end."""
    data = bytearray(path.read_bytes())
    position %= len(data)
    data[position : position + len(content)] = content
    path.write_bytes(data)


def snapshot_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and modification time of every file below a folder."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }

"""Looking into, and writing, the files of a partition while no broker runs."""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from seglog.protocol.records import RecordBatch, build_batch, iter_batches
from seglog.protocol.records.record import RecordFields

SEGMENT_FILES = (".log", ".index", ".timeindex", ".txnindex")


class IndexEntry(NamedTuple):
    """One entry as it is stored: offsets relative to the base of the segment."""

    relative_offset: int
    value: int


def segment_file(folder: Path, base_offset: int, suffix: str) -> Path:
    """A file of a segment."""
    return folder / f"{base_offset:020d}{suffix}"


def data_files(folder: Path) -> list[Path]:
    """The data files in order."""
    return sorted(folder.glob("*.log"))


def stored_batches(folder: Path) -> list[RecordBatch]:
    """All batches of all data files."""
    return [batch for path in data_files(folder) for batch in iter_batches(path.read_bytes())]


def read_offset_index(path: Path) -> list[IndexEntry]:
    """The entries of an ``.index`` file that was cut to its content."""
    return [IndexEntry(*entry) for entry in struct.iter_unpack(">ii", path.read_bytes())]


def read_time_index(path: Path) -> list[IndexEntry]:
    """The entries of a ``.timeindex`` file, with timestamps as values."""
    return [
        IndexEntry(relative, timestamp)
        for timestamp, relative in struct.iter_unpack(">qi", path.read_bytes())
    ]


def write_segment(
    folder: Path, base_offset: int, batches: Iterable[tuple[int, list[RecordFields]]]
) -> None:
    """Write a data file alone, with batches at the given offsets."""
    content = b"".join(
        bytes(build_batch(records, base_offset=offset, leader_epoch=0))
        for offset, records in batches
    )
    segment_file(folder, base_offset, ".log").write_bytes(content)


def empty_folder(folder: Path) -> None:
    """Remove what belongs to segments and producers."""
    for path in folder.iterdir():
        if path.suffix in {*SEGMENT_FILES, ".snapshot"}:
            path.unlink()

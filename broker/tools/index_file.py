"""Reading index files as bytes: entries without the reserve of zeros behind them.

The index of an active segment has its greatest length, with zeros behind the last entry. An entry
of zeros cannot be told from the reserve, but never is the last one of a whole offset index, and in
a time index only if the greatest timestamp of the segment is that of 1970.
"""

from struct import Struct
from typing import Final, NamedTuple

from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")


class IndexedPosition(NamedTuple):
    """An entry of an offset index: the last offset of the batch at a position of the data file."""

    offset: int
    position: int


class IndexedTime(NamedTuple):
    """An entry of a time index: the greatest timestamp up to the batch that ends with an offset."""

    timestamp_ms: int
    offset: int


class IndexContent(NamedTuple):
    """An index file.

    Attributes:
        entries: ``IndexedPosition`` or ``IndexedTime``, with absolute offsets.
        reserve_bytes: zeros behind them.
        odd_bytes: bytes at the end that are no whole entry.
    """

    entries: list[tuple[int, int]]
    reserve_bytes: int
    odd_bytes: int


def read_offset_index(file_system: FileSystem, path: str, base_offset: int) -> IndexContent:
    """Read a ``.index`` file; the entries are ``IndexedPosition``.

    Raises:
        MissingFileError, FileError: it cannot be read.
    """
    rows, reserve, odd = _rows(file_system.read_file(path), _OFFSET_ENTRY)
    entries: list[tuple[int, int]] = [
        IndexedPosition(base_offset + relative, position) for relative, position in rows
    ]
    return IndexContent(entries, reserve, odd)


def read_time_index(file_system: FileSystem, path: str, base_offset: int) -> IndexContent:
    """Read a ``.timeindex`` file; the entries are ``IndexedTime``.

    Raises:
        MissingFileError, FileError: it cannot be read.
    """
    rows, reserve, odd = _rows(file_system.read_file(path), _TIME_ENTRY)
    entries: list[tuple[int, int]] = [
        IndexedTime(timestamp_ms, base_offset + relative) for timestamp_ms, relative in rows
    ]
    return IndexContent(entries, reserve, odd)


def _rows(content: bytes, entry: Struct) -> tuple[list[tuple[int, int]], int, int]:
    odd = len(content) % entry.size
    whole = len(content) - odd
    used = len(content[:whole].rstrip(b"\0"))
    used = -(-used // entry.size) * entry.size
    rows = [(first, second) for first, second in entry.iter_unpack(content[:used])]
    return rows, whole - used, odd


def order_fault(entry: tuple[int, int], previous: tuple[int, int]) -> str | None:
    """The fault in the order of two entries of one index, None if there is none.

    In both kinds the first number strictly ascends, the second does not descend.
    """
    if entry[0] > previous[0] and entry[1] >= previous[1]:
        return None
    return f"entry {tuple(entry)} does not follow {tuple(previous)}"


INDEX_READERS: Final = {
    OFFSET_INDEX_SUFFIX: read_offset_index,
    TIME_INDEX_SUFFIX: read_time_index,
}

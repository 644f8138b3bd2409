"""Looking whether the indexes of a segment can be trusted, more closely than a broker does."""

from seglog.broker.storage.errors import CorruptIndexError
from seglog.broker.storage.segment.segment import LogSegment
from seglog.broker.storage.segment.sparse_index import SparseIndex


def check_indexes(segment: LogSegment, *, every_entry: bool = False) -> None:
    """What a broker checks at the first use, and on demand the order of all entries.

    Raises:
        CorruptIndexError, MissingFileError: ``recover`` or ``rebuild_indexes`` is due.
    """
    segment.indexes.check()
    segment.transaction_index.sanity_check()
    if every_entry:
        for index in (segment.offset_index, segment.time_index):
            check_order(index, segment.log.size)


def entries_of(index: SparseIndex) -> list[tuple[int, int]]:
    """All entries in order, in the units of ``entry_at``."""
    return [index.entry_at(number) for number in range(index.entries)]


def check_order(index: SparseIndex, data_bytes: int | None = None) -> None:
    """``sanity_check``, and the order of all entries; the cost grows with their number.

    Raises:
        CorruptIndexError: the index must be rebuilt.
        MissingFileError: there is no file.
    """
    index.sanity_check(data_bytes)
    previous: tuple[int, int] | None = None
    for number, entry in enumerate(entries_of(index)):
        if previous is not None and not index._follows(entry, previous):
            raise CorruptIndexError(index.path, f"entry {number} is {entry}, after {previous}")
        previous = entry

"""Examining a segment that a read has come to doubt, in another thread.

A read doubts a segment when an index does not fit, or when the batches on its way are not in order.
Only a walk over the whole file tells which of the two is wrong, and where good data goes on. It
changes no existing file: new indexes are built in files of their own, and the owner of the segment
puts them in the place of the old ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import TEMPORARY_SUFFIX
from seglog.broker.storage.files.log_file import LogFile
from seglog.broker.storage.segment.damage_walk import DamagedRange, SegmentWalk
from seglog.broker.storage.segment.offset_index import OffsetIndex
from seglog.broker.storage.segment.time_index import TimeIndex
from seglog.protocol.records.batch import BatchHeader

_OFFSETS_END: Final = 2**63 - 1


@dataclass(slots=True)
class SegmentToExamine:
    """The input of a walk, as of its request.

    Attributes:
        end: where the batches end.
        end_offset: where the next segment begins, if there is one.
        offset_index_path, time_index_path: of the indexes that are there.
        max_index_bytes: the most that each may take.
    """

    file_system: FileSystem
    log: LogFile
    base_offset: int
    end: int
    end_offset: int | None
    offset_index_path: str
    time_index_path: str
    max_index_bytes: tuple[int, int]


class Examination:
    """The findings of a walk.

    Attributes:
        offset_index, time_index: new ones, called ``.tmp``.
        damaged: ranges without good batches.
        end: up to where the file was walked over.
    """

    __slots__ = ("damaged", "end", "offset_index", "time_index")

    def __init__(self, subject: SegmentToExamine) -> None:
        base_offset = subject.base_offset
        file_system = subject.file_system
        offset_bytes, time_bytes = subject.max_index_bytes
        self.offset_index = OffsetIndex(
            file_system,
            subject.offset_index_path + TEMPORARY_SUFFIX,
            base_offset,
            offset_bytes,
            create=True,
        )
        self.time_index = TimeIndex(
            file_system,
            subject.time_index_path + TEMPORARY_SUFFIX,
            base_offset,
            time_bytes,
            create=True,
        )
        # Leftovers of a walk that did not end.
        self.offset_index.clear()
        self.time_index.clear()
        self.damaged: tuple[DamagedRange, ...] = ()
        self.end = subject.end

    def run(self, subject: SegmentToExamine, account: Callable[[BatchHeader, int], None]) -> None:
        """Walk over the file.

        Args:
            account: adds entries to the new indexes for a batch that lies at a position.

        Raises:
            StorageError: the file cannot be read, or there is no room for the indexes.
        """
        end_offset = _OFFSETS_END if subject.end_offset is None else subject.end_offset
        walk = SegmentWalk(subject.log, subject.base_offset, end_offset, subject.end)
        try:
            for header, position in walk:
                account(header, position)
        except StorageError:
            self.discard(subject.file_system)
            raise
        self.damaged = tuple(walk.damaged)

    def discard(self, file_system: FileSystem) -> None:
        """Remove the new indexes."""
        for index in (self.offset_index, self.time_index):
            index.close()
            file_system.unlink(index.path, missing_ok=True)

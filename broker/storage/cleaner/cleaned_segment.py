"""Writing the segments of a compaction: files with the suffix ``.cleaned``, in any thread."""

from typing import Final, NamedTuple

from seglog.broker.storage.cleaner.plan import CleaningPlan
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import CLEANED_SUFFIX
from seglog.broker.storage.log.exchange import remove_segment_files
from seglog.broker.storage.segment.segment_files import SegmentFiles
from seglog.broker.storage.segment.transaction_index import AbortedTransaction
from seglog.protocol.records.compaction import index_batches
from seglog.protocol.types import INT32_MAX, NO_TIMESTAMP

_SEGMENT_BYTES_MAX: Final = INT32_MAX


class _Indexed(NamedTuple):
    """Where the sparse indexes stand behind a chunk; what ``index_batches`` returns."""

    entries: list[tuple[int, int, int, int]]
    bytes_since_entry: int
    max_timestamp: int
    offset_of_max_timestamp: int
    first_offset: int
    last_offset: int


class CleanedSegments:
    """Takes the batches that stay of one group of segments; makes one segment of them, or more.

    A further one is begun where relative offsets or positions would not fit into the 31 bits of an
    index entry: batches may have grown (SEG-3).
    """

    def __init__(self, file_system: FileSystem, plan: CleaningPlan, base_offset: int) -> None:
        self._file_system = file_system
        self._plan = plan
        self._begun: list[SegmentFiles] = []
        self._begin(base_offset)

    def _begin(self, base_offset: int) -> None:
        # A pass that could not remove its files must not be continued by this one.
        remove_segment_files(self._file_system, self._plan.directory, base_offset, CLEANED_SUFFIX)
        self._files = SegmentFiles(
            self._file_system,
            self._plan.directory,
            base_offset,
            max_index_bytes=self._plan.segment_index_bytes,
            suffix=CLEANED_SUFFIX,
            create=True,
        )
        self._begun.append(self._files)
        self._indexed = _Indexed([], 0, NO_TIMESTAMP, base_offset, base_offset, base_offset - 1)

    @property
    def base_offsets(self) -> tuple[int, ...]:
        """The base offsets of all segments that were begun."""
        return tuple(files.base_offset for files in self._begun)

    def append(self, batches: memoryview) -> None:
        """Append whole batches, with the index entries that a log's own appends would have made.

        Raises:
            StorageError: the disk is full or failed.
        """
        if not batches:
            return
        indexed = self._index(batches)
        if not self._fits(batches, indexed.last_offset):
            self._seal()
            self._begin(indexed.first_offset)
            indexed = self._index(batches)
        files = self._files
        files.log.append(batches)
        self._indexed = indexed
        for last_offset, entry_position, max_timestamp, its_offset in indexed.entries:
            if files.offset_index.is_full or files.time_index.is_full:
                break
            files.offset_index.append(last_offset, entry_position)
            files.time_index.maybe_append(max_timestamp, its_offset)

    def _index(self, batches: memoryview) -> "_Indexed":
        before = self._indexed
        return _Indexed._make(
            index_batches(
                batches,
                len(batches),
                self._files.log.size,
                self._plan.index_interval_bytes,
                bytes_since_entry=before.bytes_since_entry,
                max_timestamp=before.max_timestamp,
                offset_of_max_timestamp=before.offset_of_max_timestamp,
            )
        )

    def _fits(self, batches: memoryview, last_offset: int) -> bool:
        files = self._files
        return (
            files.log.size + len(batches) <= _SEGMENT_BYTES_MAX
            and last_offset - files.base_offset <= INT32_MAX
        )

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """Keep the entry of the transaction index for an abort marker that stays (KEEP-14)."""
        self._files.transaction_index.append(transaction)

    def finish(self, modified_ms: int) -> None:
        """Close the indexes, put everything on disk, and take over the time of the last source."""
        self._seal()
        for files in self._begun:
            files.set_modified_ms(modified_ms)
            files.close()

    def _seal(self) -> None:
        files = self._files
        indexed = self._indexed
        if indexed.max_timestamp >= 0:
            files.time_index.maybe_append(
                indexed.max_timestamp, indexed.offset_of_max_timestamp, skip_full_check=True
            )
        files.trim()
        sync = files.begin_sync()
        try:
            sync.run()
        finally:
            sync.release()

    def discard(self) -> None:
        """Remove everything: the pass ended early (SEG-8)."""
        for files in self._begun:
            try:
                files.delete()
            except StorageError:
                # The next start removes .cleaned files (storage format, section 12).
                continue

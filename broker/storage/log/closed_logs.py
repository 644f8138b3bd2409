"""What the logs of a data directory were when a clean stop closed them.

``seglog-closed-logs`` spares the next start a look into each partition's folder: where the folder
and the files that a start reads are unchanged, a start makes their log from the entries here.

The file is on disk before the clean-shutdown marker, and is taken away with it, so that it counts
for one start. It proves nothing by itself: each entry names the files that it was made from by
size, times and inode (``FileStamp``), and is passed over where one of them is another by now.

A text file, as the checkpoints are: a line with the version, the id of the user that wrote it, who
could read all of the files, and the CRC-32 of all that follows; then for each log the name of its
folder, a tab, and its `ClosedLog` as JSON.
"""

import json
import logging
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from seglog.broker.storage.errors import CorruptFileError, MissingFileError
from seglog.broker.storage.files.checkpoint import EpochEntry
from seglog.broker.storage.files.file_system import FileStamp, FileSystem
from seglog.broker.storage.files.layout import TRANSACTION_INDEX_SUFFIX
from seglog.broker.storage.log.producer_entry import ProducerEntry, RetainedBatch

logger = logging.getLogger(__name__)

_VERSION: Final = 0
_HEADER_FIELDS: Final = 3


class ClosedSegment(NamedTuple):
    """A segment of a closed log; its size in bytes."""

    base_offset: int
    size_bytes: int
    has_transaction_index: bool


class ClosedLog(NamedTuple):
    """One log as it was closed.

    Attributes:
        topic_id: as ``partition.metadata`` has it.
        stamps: of the files that a start reads, by name; that of the folder itself under "".
        log_end: the log end offset, which was the recovery point.
        segments: in order.
        epochs: the leader epochs.
        snapshot_offsets: of the producer snapshots in the folder.
        producers: as they were at the log end; None if they are too many to be here as well.
    """

    topic_id: bytes
    stamps: Mapping[str, FileStamp]
    log_end: int
    segments: Sequence[ClosedSegment]
    epochs: Sequence[EpochEntry]
    snapshot_offsets: Sequence[int]
    producers: Sequence[ProducerEntry] | None

    def is_unchanged(self, file_system: FileSystem, directory: str) -> bool:
        """Whether all files are those that it tells of.

        Raises:
            FileError: the disk refused.
        """
        try:
            for name, stamp in self.stamps.items():
                if file_system.stamp(f"{directory}/{name}") != stamp:
                    return False
        except MissingFileError:
            return False
        return True

    def is_older_than(self, moment_ns: int) -> bool:
        """Whether every file was changed last before a moment, in the ticks of the file system.

        A change later in the tick of the last one would leave no trace in the stamp.
        """
        return all(stamp.changed_ns < moment_ns for stamp in self.stamps.values())

    def transaction_index_sizes(self) -> dict[int, int]:
        """The size in bytes of each transaction index, by the base offset of its segment.

        Kafka makes the file with the first aborted transaction, so that nothing else tells whether
        one is lost.
        """
        names = {
            each.base_offset: f"{each.base_offset:020d}{TRANSACTION_INDEX_SUFFIX}"
            for each in self.segments
            if each.has_transaction_index
        }
        return {base: self.stamps[name].size for base, name in names.items() if name in self.stamps}

    def encode(self) -> bytes:
        """The entry as it is in the file."""
        producers = None if self.producers is None else [*map(_producer_fields, self.producers)]
        fields = (
            self.topic_id.hex(),
            self.stamps,
            self.log_end,
            self.segments,
            self.epochs,
            self.snapshot_offsets,
            producers,
        )
        return json.dumps(fields, separators=(",", ":")).encode("ascii")

    @classmethod
    def decode(cls, entry: bytes) -> Self:
        """Read an entry of a file whose checksum fits."""
        topic_id, stamps, log_end, segments, epochs, snapshot_offsets, producers = json.loads(entry)
        return cls(
            bytes.fromhex(topic_id),
            {name: FileStamp(*stamp) for name, stamp in stamps.items()},
            log_end,
            [ClosedSegment(*segment) for segment in segments],
            [EpochEntry(*epoch) for epoch in epochs],
            snapshot_offsets,
            None if producers is None else [*map(_producer, producers)],
        )


class ClosedLogs(NamedTuple):
    """The entries of one directory.

    Attributes:
        entries: by the name of the folder, not decoded yet.
        written_ns: when they were written, by the clock of the file system.
    """

    entries: Mapping[str, bytes]
    written_ns: int

    def find(self, folder: str) -> ClosedLog | None:
        """The entry of the log in a folder; None if there is no reliable one."""
        entry = self.entries.get(folder)
        if entry is None:
            return None
        closed = ClosedLog.decode(entry)
        return closed if closed.is_older_than(self.written_ns) else None

    def transaction_index_sizes(self, folder: str) -> dict[int, int]:
        """See `ClosedLog.transaction_index_sizes`; for logs that are opened in full."""
        entry = self.entries.get(folder)
        return {} if entry is None else ClosedLog.decode(entry).transaction_index_sizes()


NO_CLOSED_LOGS: Final = ClosedLogs({}, 0)


def read_closed_logs(file_system: FileSystem, path: str) -> ClosedLogs:
    """Read the file at ``path``; no entries if there is none, it is damaged or another user's.

    Raises:
        FileError: the disk refused.
    """
    try:
        written_ns = file_system.stamp(path).modified_ns
        user, entries = split_closed_logs(path, file_system.read_file(path))
    except MissingFileError:
        return NO_CLOSED_LOGS
    except CorruptFileError as error:
        logger.warning(
            "event=file-damaged file=%s reason=%r action=open-every-log", error.path, error.reason
        )
        return NO_CLOSED_LOGS
    if user != os.geteuid():
        return NO_CLOSED_LOGS
    return ClosedLogs(entries, written_ns)


def write_closed_logs(
    file_system: FileSystem, path: str, entries: Iterable[tuple[str, bytes]]
) -> None:
    """Write the file at ``path``; on disk when this returns.

    Raises:
        DiskFullError: there is no room for it; there is no such file.
        FileError: the disk refused.
    """
    body = b"".join(b"%s\t%s\n" % (folder.encode(), entry) for folder, entry in entries)
    header = b"%d %d %08x\n" % (_VERSION, os.geteuid(), zlib.crc32(body))
    file_system.replace_atomically(path, header + body)


def split_closed_logs(path: str, content: bytes) -> tuple[int, dict[str, bytes]]:
    """The user who has written the file, and its entries.

    Raises:
        CorruptFileError: it is damaged, or of an unknown version.
    """
    header, _, body = content.partition(b"\n")
    version, user, checksum = (header.split() + [b""] * _HEADER_FIELDS)[:_HEADER_FIELDS]
    if version != b"%d" % _VERSION or not user.isdigit() or checksum != b"%08x" % zlib.crc32(body):
        raise CorruptFileError(path, "its version or checksum does not fit")
    entries: dict[str, bytes] = {}
    for line in body.splitlines():
        folder, _, entry = line.partition(b"\t")
        entries[folder.decode()] = entry
    return int(user), entries


def _producer_fields(entry: ProducerEntry) -> tuple[Any, ...]:
    return (
        entry.producer_id,
        entry.epoch,
        entry.coordinator_epoch,
        entry.last_timestamp_ms,
        entry.seen_ms,
        entry.open_transaction_offset,
        entry.batches,
    )


def _producer(fields: Sequence[Any]) -> ProducerEntry:
    entry = ProducerEntry(*fields)
    entry.batches = [RetainedBatch(*batch) for batch in entry.batches]
    return entry

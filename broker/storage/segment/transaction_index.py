"""The transaction index (``.txnindex``): the aborted transactions whose marker is in a segment.

An entry is 34 bytes, big-endian: int16 version (0), int64 producer id, int64 first offset, int64
last offset (that of the ABORT marker), int64 last stable offset when the marker was written. Last
offsets strictly increase. The file is made with the first entry.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from seglog.broker.storage.errors import CorruptIndexError, IndexAppendError
from seglog.broker.storage.files.file_system import FileSystem, LogFile

_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """An aborted transaction; both offsets are inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions of one segment; the file is read once, at the first request."""

    __slots__ = (
        "_entries",
        "_expected_bytes",
        "_file",
        "_file_system",
        "base_offset",
        "path",
    )

    def __init__(
        self, file_system: FileSystem, path: str, base_offset: int, *, create: bool = False
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        self._file_system = file_system
        self._file: LogFile | None = None
        self._expected_bytes = 0
        self._entries: list[AbortedTransaction] | None = [] if create else None
        if create and file_system.exists(path):
            file_system.unlink(path)

    def exists(self) -> bool:
        """Whether there is a file."""
        return self._file_system.exists(self.path)

    def note_absent(self) -> None:
        """Takes note that there is no file, which spares a look for it."""
        self._entries = []

    def expect(self, size_bytes: int) -> None:
        """Takes note of the size that the file has, for when it is read.

        Without this a file that was removed meanwhile looks like one that was never there, and
        readers of committed records get aborted ones.
        """
        self._expected_bytes = size_bytes

    @property
    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return not self._load()

    @property
    def size_bytes(self) -> int:
        """Length of the file, 0 if there is none."""
        return len(self.all()) * _ENTRY.size

    def append(self, transaction: AbortedTransaction) -> None:
        """Adds an entry.

        Raises:
            IndexAppendError: its last offset is not greater than the last one.
            DiskFullError: there is no space; nothing was added.
        """
        entries = self._load()
        if entries and transaction.last_offset <= entries[-1].last_offset:
            raise IndexAppendError(
                self.path,
                f"last offset {transaction.last_offset} does not follow {entries[-1].last_offset}",
            )
        self._open(create=True).append(_ENTRY.pack(_VERSION, *transaction))
        entries.append(transaction)

    def all(self) -> list[AbortedTransaction]:
        """All entries, in order."""
        return list(self._load())

    def collect(self, from_offset: int, to_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The transactions that overlap [from_offset, to_offset).

        Returns:
            The entries, and whether the search is complete: if not, later segments may hold
            more of them.
        """
        found: list[AbortedTransaction] = []
        for entry in self._load():
            if entry.last_offset >= from_offset and entry.first_offset < to_offset:
                found.append(entry)
            if entry.last_stable_offset >= to_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drops everything from the first entry on whose last offset is >= ``offset``."""
        entries = self._load()
        self._keep_until(lambda entry: entry.last_offset >= offset, entries)

    def _keep_until(
        self, ends: Callable[[AbortedTransaction], bool], entries: list[AbortedTransaction]
    ) -> None:
        for number, entry in enumerate(entries):
            if ends(entry):
                self._open(create=False).truncate(number * _ENTRY.size)
                del entries[number:]
                return

    def clear(self) -> None:
        """Drops all entries, with any contents of the file."""
        is_known_absent = self._entries == [] and self._file is None
        self._entries = []
        if not is_known_absent and self.exists():
            self._open(create=False).truncate(0)

    def replace(self, entries: Sequence[AbortedTransaction]) -> None:
        """Replaces the contents of the file by these entries; on disk when it returns.

        Raises:
            DiskFullError, FileError: the file is as it was.
        """
        self.close()
        content = b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)
        self._file_system.replace_atomically(self.path, content)
        self._entries, self._expected_bytes = list(entries), 0

    def sanity_check(self) -> None:
        """Reads the whole file; most segments have none.

        Raises:
            CorruptIndexError: it is shorter than expected, or has a bad length, version, or an
                entry below the base offset.
        """
        for entry in self._load():
            if entry.last_offset < self.base_offset:
                raise CorruptIndexError(
                    self.path,
                    f"last offset {entry.last_offset} is below the base offset {self.base_offset}",
                )

    @property
    def opened_file(self) -> LogFile | None:
        """The file, if this object has opened it to add or drop an entry."""
        return self._file

    def renamed(self, path: str) -> None:
        """Takes note that the file was renamed."""
        self.path = path
        if self._file is not None:
            self._file.path = path

    def close(self) -> None:
        """Lets go of the descriptor."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, *, create: bool) -> LogFile:
        if self._file is None:
            self._file = self._file_system.open_log(self.path, create=create)
        return self._file

    def _load(self) -> list[AbortedTransaction]:
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    def _read(self) -> list[AbortedTransaction]:
        content = self._file_system.read_file(self.path) if self.exists() else b""
        if len(content) < self._expected_bytes:
            raise CorruptIndexError(
                self.path,
                f"it has {len(content)} bytes, and had {self._expected_bytes}; a restart builds it"
                " anew",
            )
        if len(content) % _ENTRY.size:
            raise CorruptIndexError(
                self.path, f"its size {len(content)} is no multiple of {_ENTRY.size}"
            )
        entries: list[AbortedTransaction] = []
        for version, *fields in _ENTRY.iter_unpack(content):
            if version != _VERSION:
                raise CorruptIndexError(self.path, f"entry version {version} is not known")
            entry = AbortedTransaction(*fields)
            if entries and entry.last_offset <= entries[-1].last_offset:
                raise CorruptIndexError(self.path, f"{entry} does not follow {entries[-1]}")
            entries.append(entry)
        return entries

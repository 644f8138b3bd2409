"""A little space kept back in each data directory, for writes that free space on a full disk.

Deleting a topic, shortening its retention and deleting records begin with writing a small file.
The reserve is a file of zeros that is given up when such a write finds no space, and made anew as
soon as it is done: the file that was replaced has left about as much room as the new one took.
Nothing else may use it, or a disk that is full would stay so. While it is given up no append takes
it, since records are refused meanwhile (``LogDir.refusal``).
"""

import logging
from collections.abc import Callable
from typing import Final

from seglog.broker.storage.directories.catalog_file import CATALOG_FILE
from seglog.broker.storage.errors import DiskFullError, StorageError
from seglog.broker.storage.files.file_system import FileSystem

logger = logging.getLogger(__name__)

RESERVE_FILE: Final = "seglog-reserve"
RESERVE_BYTES: Final = 262_144
_SMALLEST_BYTES: Final = 16_384
_CATALOGS: Final = 3
"""So many times a large topic catalog has to find room: two copies, and a checkpoint as large."""


class DiskReserve:
    """The reserve of one data directory; used by one thread at a time, that of its changes.

    Attributes:
        is_open: whether it is given up, so that nothing else may be written; any thread may ask.
    """

    def __init__(self, file_system: FileSystem, directory: str) -> None:
        self.is_open = False
        self._file_system = file_system
        self._directory = directory
        self._path = f"{directory}/{RESERVE_FILE}"

    def keep(self) -> None:
        """Make the reserve if it is not there, as large as there is room for it; blocks.

        Raises:
            FileError: the disk refused for another reason than its being full.
        """
        # Where making it has failed for another reason than a full disk there may be a part of it.
        if self.is_open or not self._file_system.exists(self._path):
            self._make(self._wanted_bytes())

    def enlarge(self) -> None:
        """The same where it is too small by now; only while there is room, as it is made anew."""
        wanted = self._wanted_bytes()
        exists = self._file_system.exists(self._path)
        if self.is_open or not exists or self._file_system.size(self._path) < wanted:
            self._make(wanted)

    def write_to_free_space(self, write: Callable[[], None]) -> None:
        """Call ``write``, a second time without the reserve if it finds the disk full; blocks.

        Only for operations that lead to more space: the deletion of a topic or of records, a
            shorter
        retention, and the opening of a log, which could not be deleted from otherwise.

        Raises:
            DiskFullError: there was no reserve, or it was not enough.
        """
        try:
            write()
        except DiskFullError:
            # First of all: between the removal and the write others would take the room.
            self.is_open = True
            if not self._file_system.unlink(self._path, missing_ok=True):
                self.is_open = False
                raise
            logger.warning("event=disk-full directory=%s action=use-reserve", self._directory)
            try:
                write()
            finally:
                self._restore()

    def _restore(self) -> None:
        try:
            self._make(self._wanted_bytes())
        except StorageError as error:
            logger.warning("event=reserve-not-kept directory=%s error=%s", self._directory, error)

    def _wanted_bytes(self) -> int:
        catalog = f"{self._directory}/{CATALOG_FILE}"
        if not self._file_system.exists(catalog):
            return RESERVE_BYTES
        return max(RESERVE_BYTES, _CATALOGS * self._file_system.size(catalog))

    def _make(self, size_bytes: int) -> None:
        while size_bytes >= _SMALLEST_BYTES:
            try:
                self._file_system.write_file(self._path, bytes(size_bytes), sync=False)
            except DiskFullError:
                self._file_system.unlink(self._path, missing_ok=True)
                size_bytes //= 2
            else:
                self.is_open = False
                return

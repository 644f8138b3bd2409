"""Which segments of a log may still have their names on disk, although they were taken away.

A rename is durable once its folder was synced. Until then a power cut brings the segment back, and
with it records that were deleted: so the log start stays in the checkpoint for as long.
"""

import logging

from seglog.broker.storage.errors import FileError
from seglog.broker.storage.files.file_system import FileSystem

logger = logging.getLogger(__name__)


class RemovedNames:
    """The names that retention has taken away from one log.

    One count is of removals, one of those on disk: ``note`` is called by the owner of the log
    alone, ``NameSync.run`` by one worker at a time.
    """

    def __init__(self, file_system: FileSystem) -> None:
        self._file_system = file_system
        self._removed = 0
        self._synced = 0
        self._base_offsets: list[tuple[int, int]] = []

    def note(self, base_offset: int) -> None:
        """Note that the files of a segment have other names now."""
        self._removed += 1
        self._base_offsets.append((self._removed, base_offset))

    def lowest_on_disk(self) -> int | None:
        """The lowest base offset that a power cut may bring back; None if there is none."""
        synced = self._synced
        self._base_offsets = [each for each in self._base_offsets if each[0] > synced]
        return min((base_offset for _, base_offset in self._base_offsets), default=None)

    def begin_sync(self, directory: str) -> "NameSync":
        """The job of a worker that puts all noted removals on disk."""
        return NameSync(self, directory, self._removed)

    def sync(self, directory: str, count: int) -> None:
        """The work of a `NameSync`."""
        if count <= self._synced:
            return
        try:
            self._file_system.sync_directory(directory)
        except FileError as error:
            if self._file_system.exists(directory):
                raise
            # The whole log is being deleted; its folder was renamed under our hands.
            logger.debug("event=names-not-synced directory=%s error=%s", directory, error)
            return
        self._synced = max(self._synced, count)


class NameSync:
    """One sync of a log's folder."""

    def __init__(self, names: RemovedNames, directory: str, count: int) -> None:
        self._names = names
        self._directory = directory
        self._count = count

    def run(self) -> None:
        """Sync the folder, if that was not done meanwhile; blocks.

        Raises:
            FileError: the disk failed.
        """
        self._names.sync(self._directory, self._count)

"""How far the loading of logs is: after a crash it verifies them, which may take minutes.

The loading threads count here, and any thread may read meanwhile. The reader decides when to
report; nothing here knows a clock.
"""

import threading
from typing import NamedTuple


class DirectoryProgress(NamedTuple):
    """How far one data directory is: its logs, and the size of those that are done in bytes."""

    directory: str
    logs_done: int
    logs_total: int
    bytes_done: int

    @property
    def logs_remaining(self) -> int:
        """How many logs are still to be loaded, those under way included."""
        return self.logs_total - self.logs_done


class LoadProgress:
    """Counts the logs that are loaded, for each data directory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_directory: dict[str, DirectoryProgress] = {}

    def expect(self, directory: str, logs: int) -> None:
        """Note how many logs there are to load in a directory."""
        with self._lock:
            self._by_directory[directory] = DirectoryProgress(directory, 0, logs, 0)

    def log_done(self, directory: str, size_bytes: int) -> None:
        """Note that a log is loaded, or could not be."""
        with self._lock:
            _, done, total, bytes_done = self._by_directory[directory]
            self._by_directory[directory] = DirectoryProgress(
                directory, done + 1, total, bytes_done + size_bytes
            )

    def read(self) -> list[DirectoryProgress]:
        """Where each directory is now; none before it is known how many logs there are."""
        with self._lock:
            return list(self._by_directory.values())

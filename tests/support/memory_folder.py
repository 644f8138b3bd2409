"""Folders in memory, for tests that write thousands of small files and are not about the disk."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
NEEDED_BYTES = 1 << 30


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A new folder in memory, or on disk where there is no room in memory."""
    parent = MEMORY if _has_room(MEMORY) else None
    folder = Path(tempfile.mkdtemp(prefix="seglog-test-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _has_room(folder: Path) -> bool:
    if not os.access(folder, os.W_OK):
        return False
    space = os.statvfs(folder)
    return space.f_bavail * space.f_frsize >= NEEDED_BYTES

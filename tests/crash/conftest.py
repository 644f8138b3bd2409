"""Crash tests write the same small folders thousands of times: in memory, where that is possible.

What a power cut leaves is computed from the recorded changes, so the real disk adds nothing but its
slowness.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
NEEDED_BYTES = 1 << 30


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder of the test's own."""
    if not _is_usable(MEMORY):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="seglog-crash-", dir=MEMORY))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _is_usable(folder: Path) -> bool:
    if not os.access(folder, os.W_OK):
        return False
    space = os.statvfs(folder)
    return space.f_bavail * space.f_frsize >= NEEDED_BYTES

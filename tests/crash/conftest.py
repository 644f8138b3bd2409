"""Crash tests write the same small folders thousands of times: in memory, where that is possible.

What a power cut leaves is computed from the recorded changes, so the real disk adds nothing but its
slowness.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.memory_folder import memory_folder


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder of the test's own."""
    with memory_folder() as folder:
        yield folder

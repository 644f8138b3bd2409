"""A little space kept back in each data directory, for small files that matter on a full disk.

Without it a full disk could not be freed by the broker's own means: shortening the retention of a
topic or deleting records begins with writing a small file. The reserve is a file of zeros that is
given up when such a write finds no space, and made anew when there is room again.
"""

import logging
from collections.abc import Callable
from typing import Final

from seglog.broker.storage.errors import DiskFullError
from seglog.broker.storage.files import FileSystem

logger = logging.getLogger(__name__)

RESERVE_FILE: Final = "seglog-reserve"
RESERVE_BYTES: Final = 262_144


def keep_reserve(file_system: FileSystem, directory: str) -> None:
    """Make the reserve if it is not there and there is room for it.

    Raises:
        FileError: the disk refused for another reason than its being full.
    """
    path = f"{directory}/{RESERVE_FILE}"
    if file_system.exists(path):
        return
    try:
        file_system.write_file(path, bytes(RESERVE_BYTES), sync=False)
    except DiskFullError:
        file_system.unlink(path, missing_ok=True)


def give_up_reserve(file_system: FileSystem, directory: str) -> None:
    """Remove the reserve for somebody who is about to write and cannot repeat it."""
    if file_system.unlink(f"{directory}/{RESERVE_FILE}", missing_ok=True):
        logger.warning("event=disk-full directory=%s action=give-up-reserve", directory)


def write_even_if_full(file_system: FileSystem, directory: str, write: Callable[[], None]) -> None:
    """Call ``write``, a second time without the reserve if it finds the disk full.

    Raises:
        DiskFullError: there was no reserve, or it was not enough.
    """
    try:
        write()
    except DiskFullError:
        if not file_system.unlink(f"{directory}/{RESERVE_FILE}", missing_ok=True):
            raise
        logger.warning("event=disk-full directory=%s action=give-up-reserve", directory)
        write()

"""Whether a range of a file is in memory, and bringing it there.

``sendfile`` of pages that are not in memory waits for the disk, and its caller waits with it: a
reader that is far behind would so hold up all other requests on the event loop.
"""

import os
from collections.abc import Iterable
from typing import Final

from seglog.broker.storage.errors import SliceCutError
from seglog.broker.storage.files.log_file import FileSlice

_PROBE_STEP_BYTES: Final = 262_144
"""A range is probed at such distances; the kernel reads ahead in windows of about that size."""
_PROBES_MAX: Final = 64
_CHUNK_BYTES: Final = 262_144
_NO_WAIT: Final = getattr(os, "RWF_NOWAIT", 0)
_probe_target: Final = [bytearray(1)]
"""Its contents do not matter, so all probes share it."""


def is_resident(file_slice: FileSlice) -> bool:
    """Whether a slice can be sent without waiting for the disk, as far as samples tell.

    Costs a system call of about a microsecond for each 256 KiB. True where the platform or the file
    system cannot say.
    """
    if not _NO_WAIT or file_slice.length <= 0:
        return True
    try:
        descriptor = file_slice.fileno()
    except SliceCutError:
        return True  # sending it reports the error
    first = file_slice.position
    last = first + file_slice.length - 1
    step = max(_PROBE_STEP_BYTES, file_slice.length // _PROBES_MAX)
    try:
        for position in (*range(first, last, step), last):
            os.preadv(descriptor, _probe_target, position, _NO_WAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True  # not every file system knows the flag; a real fault shows when it is sent
    return True


def bring_in(slices: Iterable[FileSlice]) -> None:
    """Read slices, for the effect that their pages are in memory afterwards; blocks.

    Raises:
        OSError: a file cannot be read.
    """
    chunk = [bytearray(_CHUNK_BYTES)]
    for file_slice in slices:
        try:
            descriptor = file_slice.fileno()
        except SliceCutError:
            continue
        position = file_slice.position
        end = position + file_slice.length
        if hasattr(os, "posix_fadvise"):
            # All of it at once, so that the disk has a queue to work on while we wait at its head.
            os.posix_fadvise(descriptor, position, file_slice.length, os.POSIX_FADV_WILLNEED)
        while position < end:
            count = os.preadv(descriptor, chunk, position)
            if count == 0:
                return
            position += count

"""What the kernel says of the pages of a file: cachestat(2), since Linux 6.5."""

import ctypes
import errno
import os
from typing import ClassVar, Final

import pytest

_CACHESTAT: Final = 451
_PAGE_BYTES: Final = 4096


class _Range(ctypes.Structure):
    _fields_: ClassVar = [("offset", ctypes.c_uint64), ("length", ctypes.c_uint64)]


class _Statistics(ctypes.Structure):
    _fields_: ClassVar = [
        (name, ctypes.c_uint64)
        for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")
    ]


def unwritten_pages(descriptor: int, start: int, end: int) -> int:
    """How many of the pages that lie wholly between two positions are not on disk yet.

    The test is skipped where the kernel does not tell.
    """
    first, last = -(-start // _PAGE_BYTES) * _PAGE_BYTES, end // _PAGE_BYTES * _PAGE_BYTES
    if last <= first:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    asked, found = _Range(first, last - first), _Statistics()
    if libc.syscall(_CACHESTAT, descriptor, ctypes.byref(asked), ctypes.byref(found), 0) != 0:
        number = ctypes.get_errno()
        if number in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
            pytest.skip(f"the kernel does not tell of its pages: {os.strerror(number)}")
        raise OSError(number, os.strerror(number))
    return int(found.dirty + found.writeback)

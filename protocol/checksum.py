"""CRC-32C (Castagnoli), the checksum of record batches and producer snapshots."""

import importlib.util
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Final

from seglog.protocol.types import Buffer

_ChecksumFunction = Callable[[Buffer, int], int]


def _load_function() -> _ChecksumFunction:
    """Find the C function of the package ``crc32c``.

    The package itself is not run: only to know its own version it imports importlib.metadata, which
    takes zipfile and email along; 15 ms and 3 MB, a good part of what a start may cost.
    """
    package = importlib.util.find_spec("crc32c")
    if package is not None and package.submodule_search_locations is not None:
        spec = PathFinder.find_spec("_crc32c", package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            extension = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(extension)
            function: _ChecksumFunction = extension.crc32c
            return function
    from crc32c import crc32c as whole_package

    return whole_package


_crc32c: Final = _load_function()


def crc32c(data: Buffer, value: int = 0) -> int:
    """Return the CRC-32C of ``data``, continued from ``value``; 0xE3069283 for ``b"123456789"``.

    Takes any contiguous buffer without a copy and releases the GIL on large ones.
    """
    return _crc32c(data, value)

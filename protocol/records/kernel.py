"""The kernels of the record format: compiled ones where they exist, else their Python twins.

``SEGLOG_PURE_PYTHON=1`` in the environment forces the twins. ``_pure.py`` documents the functions;
``data`` is always the decompressed records area of one batch, ``memoryview(batch)[61:]``.
"""

import os
import warnings
from typing import Final

__all__ = [
    "COMPILED",
    "decode_records",
    "encode_records",
    "find_timestamp",
    "greatest_timestamp",
    "murmur2",
    "partition_keys",
    "rewrite_records",
    "scan_records",
]


_TWINS_ARE_WANTED = os.environ.get("SEGLOG_PURE_PYTHON", "") not in {"", "0"}


def _check_not_forced() -> None:
    if _TWINS_ARE_WANTED:
        raise ImportError("SEGLOG_PURE_PYTHON asks for the Python twins")


try:
    _check_not_forced()
    from seglog.protocol._kernel import (
        decode_records,
        encode_records,
        find_timestamp,
        greatest_timestamp,
        murmur2,
        partition_keys,
        rewrite_records,
        scan_records,
    )
except ImportError as _error:
    _why_missing = str(_error)
    from seglog.protocol.records._pure import (
        decode_records,
        encode_records,
        find_timestamp,
        greatest_timestamp,
        murmur2,
        partition_keys,
        rewrite_records,
        scan_records,
    )

else:
    _why_missing = ""

COMPILED: Final = encode_records.__module__ == "seglog.protocol._kernel"
"""Whether the compiled kernels are in use."""

SLOW_BECAUSE: Final = (
    f"the compiled kernels are missing ({_why_missing}), so records are handled in plain Python, "
    "some 16 times slower: install seglog where a C compiler is; SEGLOG_PURE_PYTHON=1 says that "
    "it is meant"
    if _why_missing and not _TWINS_ARE_WANTED
    else ""
)
"""Why the twins are in use without a request for them; empty if they are not."""


def warn_if_slow() -> None:
    """Give the program that makes a client a RuntimeWarning where the twins are not meant."""
    if SLOW_BECAUSE:
        warnings.warn(SLOW_BECAUSE, RuntimeWarning, stacklevel=3)

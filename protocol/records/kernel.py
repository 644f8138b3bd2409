"""The kernels of the record format: compiled ones where they exist, else their Python twins.

``SEGLOG_PURE_PYTHON=1`` in the environment forces the twins. ``_pure.py`` documents the functions;
``data`` is always the decompressed records area of one batch, ``memoryview(batch)[61:]``.
"""

import os
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


def _check_not_forced() -> None:
    if os.environ.get("SEGLOG_PURE_PYTHON", "") not in {"", "0"}:
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
except ImportError:
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

COMPILED: Final = encode_records.__module__ == "seglog.protocol._kernel"
"""Whether the compiled kernels are in use."""

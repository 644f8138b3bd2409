"""Record batches, the bytes that disk, both dialects and the clients share.

``batch`` reads and patches them, ``builder`` and ``rebuild`` write them, ``validation`` checks what
a client sent, ``search`` finds records by time, ``control`` knows transaction markers,
``partitioning`` places keys. Work on single records is done by the functions of ``kernel``.
"""

from seglog.protocol.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    BatchHeader,
    RecordBatch,
    iter_batches,
    patch_offsets,
    patch_timestamps,
    read_header,
)
from seglog.protocol.records.builder import build_batch, estimate_record_size, estimate_size
from seglog.protocol.records.rebuild import rebuild_batch
from seglog.protocol.records.record import Record
from seglog.protocol.records.search import find_timestamp
from seglog.protocol.records.validation import BatchInspection, inspect_batch

__all__ = [
    "HEADER_BYTES",
    "LOG_OVERHEAD",
    "BatchHeader",
    "BatchInspection",
    "Record",
    "RecordBatch",
    "build_batch",
    "estimate_record_size",
    "estimate_size",
    "find_timestamp",
    "inspect_batch",
    "iter_batches",
    "patch_offsets",
    "patch_timestamps",
    "read_header",
    "rebuild_batch",
]

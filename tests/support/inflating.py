"""Small batches that inflate to much."""

from seglog.protocol.compression import Codec
from seglog.protocol.records import kernel
from seglog.protocol.records.batch import HEADER_BYTES, RecordBatch
from seglog.protocol.records.builder import build_batch, finish_batch

STAMP_MS = 1_700_000_000_000


def repeated_record_batch(
    record_count: int, codec: Codec = Codec.ZSTD, *, value_bytes: int = 0
) -> memoryview:
    """``record_count`` times the same record: all offset deltas are 0, each takes 8 bytes or so."""
    one, base_timestamp, max_timestamp = kernel.encode_records(
        [(STAMP_MS, None, bytes(value_bytes), ())]
    )
    header = RecordBatch(build_batch([(STAMP_MS, None, b"", ())])).header._replace(
        last_offset_delta=record_count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=record_count,
    )
    plain = bytearray(HEADER_BYTES) + bytes(one) * record_count
    return memoryview(finish_batch(header, plain, codec))


def large_value_batch(value_bytes: int, codec: Codec = Codec.ZSTD) -> memoryview:
    """One record whose value is zeros."""
    return memoryview(build_batch([(STAMP_MS, b"k", bytes(value_bytes), ())], codec=codec))

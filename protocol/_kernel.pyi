from array import array
from collections.abc import Iterable, Sequence
from typing import TypeVar

from seglog.protocol.records._pure_arrow import (
    BinaryColumn,
    ColumnBuffers,
    NumberColumn,
    RowColumns,
)
from seglog.protocol.records.batch import BatchHeader
from seglog.protocol.records.record import RecordFields
from seglog.protocol.types import Buffer

_RecordT = TypeVar("_RecordT", bound=tuple[object, ...])

def encode_records(
    records: Iterable[RecordFields],
    reserve_bytes: int = 0,
    offset_deltas: Sequence[int] | None = None,
    base_timestamp: int | None = None,
) -> tuple[bytearray, int, int]: ...
def decode_records(
    data: Buffer,
    record_count: int,
    record_type: type[_RecordT],
    topic: str,
    partition: int,
    *,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None = None,
    from_offset: int = ...,
) -> list[_RecordT]: ...
def scan_records(
    data: Buffer,
    record_count: int,
    base_timestamp: int,
    require_keys: bool = False,
    earliest_timestamp: int = ...,
    latest_timestamp: int = ...,
    *,
    offenders_max: int = 1000,
) -> tuple[int, int, int, bool, tuple[int, ...], tuple[int, ...]]: ...
def find_timestamp(
    data: Buffer, record_count: int, base_timestamp: int, target: int, from_delta: int = ...
) -> tuple[int, int] | None: ...
def greatest_timestamp(
    data: Buffer, record_count: int, base_timestamp: int, from_delta: int = ...
) -> int | None: ...
def rewrite_records(
    data: Buffer,
    record_count: int,
    base_timestamp: int,
    new_base_timestamp: int | None = None,
    keep_mask: Buffer | None = None,
    *,
    renumber: bool = False,
    reserve_bytes: int = 0,
) -> tuple[bytearray, int, int, int]: ...
def murmur2(key: Buffer) -> int: ...
def partition_keys(keys: Iterable[Buffer | None], partition_count: int) -> list[int]: ...

class SkimpyOffsetMap:
    slots: int
    usable_slots: int
    size: int
    latest_offset: int
    probes: int
    lookups: int
    @property
    def is_full(self) -> bool: ...
    def __init__(self, memory_bytes: int, load_factor: float) -> None: ...
    def clear(self) -> None: ...
    def put(self, key: Buffer, offset: int) -> None: ...
    def get(self, key: Buffer) -> int: ...

def key_hash(key: Buffer) -> bytes: ...
def frame_batches(
    data: Buffer, position: int, next_offset: int, end_offset: int
) -> tuple[int, int, int]: ...
def map_batches(
    keys: SkimpyOffsetMap, data: Buffer, position: int, start_offset: int
) -> tuple[int, int]: ...
def map_records(
    keys: SkimpyOffsetMap, area: Buffer, header: BatchHeader, start_offset: int
) -> int: ...
def filter_records(
    keys: SkimpyOffsetMap, area: Buffer, header: BatchHeader, now_ms: int, horizon_ms: int
) -> tuple[int, int, int, bool, int, int, bytes | None] | None: ...
def filter_batches(
    keys: SkimpyOffsetMap,
    data: Buffer,
    position: int,
    out: bytearray | memoryview,
    written: int,
    *,
    now_ms: int,
    horizon_ms: int,
    protected_offsets: array[int],
) -> tuple[int, int, int, int, int, int]: ...
def index_batches(
    data: Buffer,
    end: int,
    file_position: int,
    interval_bytes: int,
    *,
    bytes_since_entry: int,
    max_timestamp: int,
    offset_of_max_timestamp: int,
) -> tuple[list[tuple[int, int, int, int]], int, int, int, int, int]: ...
def header_if_ordinary(
    data: Buffer,
    header_type: type[_RecordT],
    require_keys: bool,
    earliest_timestamp: int,
    latest_timestamp: int,
) -> _RecordT | None: ...

class RecordColumns:
    rows: int
    data_bytes: int
    def __init__(
        self, with_key: bool = True, with_value: bool = True, with_headers: bool = False
    ) -> None: ...
    def append(
        self,
        data: Buffer,
        record_count: int,
        base_offset: int,
        base_timestamp: int,
        *,
        append_time: int | None = None,
        from_offset: int = ...,
        end_offset: int = ...,
    ) -> int: ...
    def take(self) -> ColumnBuffers: ...

def place_rows(
    rows: int,
    key: BinaryColumn | None,
    chosen: NumberColumn | None,
    partition_count: int,
    keyless_partition: int,
) -> tuple[bytearray, list[int]]: ...
def encode_columns(
    columns: RowColumns,
    order: Buffer,
    first: int,
    end: int,
    max_bytes: int,
    reserve_bytes: int = 0,
) -> tuple[bytearray, int, int, int]: ...

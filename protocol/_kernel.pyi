from collections.abc import Iterable, Sequence
from typing import TypeAlias, TypeVar

from seglog.protocol.types import Buffer

_RecordT = TypeVar("_RecordT", bound=tuple[object, ...])
_Headers: TypeAlias = Iterable[tuple[str, Buffer | None]]
_RecordFields: TypeAlias = tuple[int, Buffer | None, Buffer | None, _Headers]

def encode_records(
    records: Iterable[_RecordFields],
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
    offenders_max: int = 1000,
) -> tuple[int, int, int, bool, tuple[int, ...], tuple[int, ...]]: ...
def find_timestamp(
    data: Buffer, record_count: int, base_timestamp: int, target: int, from_delta: int = ...
) -> tuple[int, int] | None: ...
def rewrite_records(
    data: Buffer,
    record_count: int,
    base_timestamp: int,
    new_base_timestamp: int | None = None,
    keep_mask: Buffer | None = None,
    renumber: bool = False,
    reserve_bytes: int = 0,
) -> tuple[bytearray, int, int, int]: ...
def murmur2(key: Buffer) -> int: ...
def partition_keys(keys: Iterable[Buffer | None], partition_count: int) -> list[int]: ...

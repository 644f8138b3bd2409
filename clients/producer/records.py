"""Records on their way into a batch: checked, and measured as the batch will count them."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from seglog.clients.errors import ConfigurationError
from seglog.protocol.types import INT64_MAX

Headers = tuple[tuple[str, bytes | None], ...]
RecordFields = tuple[int, bytes | None, bytes | None, Headers]
"""Timestamp, key, value, headers: a record as ``build_batch`` takes it."""
BytesLike = bytes | bytearray | memoryview
HeadersLike = Iterable[tuple[str, BytesLike | None]]
BulkItem = (
    tuple[BytesLike | None, BytesLike | None]
    | tuple[BytesLike | None, BytesLike | None, int | None]
    | tuple[BytesLike | None, BytesLike | None, int | None, HeadersLike]
)
"""Key, value and, where wanted, timestamp and headers of a record of ``send_many``."""

RECORD_OVERHEAD_BYTES: Final = 14
"""Room for what surrounds key and value of a record: lengths, attributes and small deltas."""
HEADER_OVERHEAD_BYTES: Final = 6
_PAIR: Final = 2


def measured_item(item: BulkItem, time_ns: Callable[[], int]) -> tuple[RecordFields, int]:
    """Return the record for an item of ``send_many``, and its size.

    Raises:
        ConfigurationError: not two to four elements, or one of the wrong type.
    """
    if len(item) == _PAIR:
        key, value = item
        if (key is None or type(key) is bytes) and (value is None or type(value) is bytes):
            size = RECORD_OVERHEAD_BYTES
            if key is not None:
                size += len(key)
            if value is not None:
                size += len(value)
            return (time_ns() // 1_000_000, key, value, ()), size
        return measured_record(key, value, None, (), time_ns)
    return _measured_long_item(item, time_ns)


def _measured_long_item(item: Any, time_ns: Callable[[], int]) -> tuple[RecordFields, int]:
    try:
        key, value, timestamp_ms, *more = item
        (headers,) = more or ((),)
    except ValueError:
        raise ConfigurationError(
            f"an item of {len(item)} elements; expected key, value[, timestamp_ms[, headers]]"
        ) from None
    return measured_record(key, value, timestamp_ms, headers, time_ns)


def measured_record(
    key: BytesLike | None,
    value: BytesLike | None,
    timestamp_ms: int | None,
    headers: HeadersLike | None,
    time_ns: Callable[[], int],
) -> tuple[RecordFields, int]:
    """Return the checked record, and its size; without a timestamp it is stamped now.

    Raises:
        ConfigurationError: a key, value or header that is not bytes, or a timestamp out of range.
    """
    key = _checked_bytes("key", key)
    value = _checked_bytes("value", value)
    if timestamp_ms is None:
        timestamp_ms = time_ns() // 1_000_000
    elif type(timestamp_ms) is not int or not 0 <= timestamp_ms <= INT64_MAX:
        raise ConfigurationError(f"timestamp_ms={timestamp_ms!r}: expected milliseconds from 0 on")
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    if not headers:
        return (timestamp_ms, key, value, ()), size
    checked: list[tuple[str, bytes | None]] = []
    for header in headers:
        if not isinstance(header, (tuple, list)) or len(header) != _PAIR:
            raise ConfigurationError(f"header {header!r}: expected a pair of name and value")
        name, content = header
        if type(name) is not str:
            raise ConfigurationError(f"header name {name!r}: expected a string")
        plain = _checked_bytes(f"header {name}", content)
        try:
            size += HEADER_OVERHEAD_BYTES + len(name.encode()) + len(plain or b"")
        except UnicodeEncodeError as error:
            raise ConfigurationError(f"header name {name!r} is no text that can be sent") from error
        checked.append((name, plain))
    return (timestamp_ms, key, value, tuple(checked)), size


def _checked_bytes(what: str, content: BytesLike | None) -> bytes | None:
    if content is None or type(content) is bytes:
        return content
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content)
    raise ConfigurationError(f"{what} is a {type(content).__name__}: expected bytes or None")


def size_of(record: RecordFields) -> int:
    """Size of a record that was checked before, as its batch counts it."""
    _, key, value, headers = record
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += HEADER_OVERHEAD_BYTES + len(name.encode()) + len(content or b"")
    return size

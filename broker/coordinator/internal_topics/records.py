"""Records of internal topics, independent of their content, and cutting them into batches."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from seglog.protocol.records.builder import RECORD_OVERHEAD_BYTES_MAX

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""

StoredRecord: TypeAlias = tuple[bytes, bytes | None]
"""Key and value; no value deletes what the key names."""


def split_by_size(records: Iterable[StoredRecord], max_bytes: int) -> Iterator[list[StoredRecord]]:
    """Cut records into runs that fit into a batch each; a record that alone is larger stays so."""
    run: list[StoredRecord] = []
    size = 0
    for key, value in records:
        record_bytes = len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES_MAX
        if run and size + record_bytes > max_bytes:
            yield run
            run, size = [], 0
        run.append((key, value))
        size += record_bytes
    if run:
        yield run

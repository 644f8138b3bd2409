"""Filling the partitions of a fake broker."""

from seglog.protocol.records.builder import build_batch
from support.fake_broker import FakeLog


def fill(log: FakeLog, values, *, batch_records=1, timestamp_ms=1000, **options) -> None:
    """Append records with these values, stamped one millisecond after another."""
    values = list(values)
    for first in range(0, len(values), batch_records):
        records = [
            (timestamp_ms + first + index, None, value, ())
            for index, value in enumerate(values[first : first + batch_records])
        ]
        log.append(build_batch(records, **options))


def numbered(count, start=0):
    """So many values that tell their number."""
    return [b"%d" % index for index in range(start, start + count)]

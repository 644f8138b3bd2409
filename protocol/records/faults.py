"""Faults in the bytes of a record, and their errors.

Both kernels report a fault by number, so both refuse a damaged batch with the same words.
"""

from enum import IntEnum

from seglog.protocol.errors import ErrorCode, RecordError


class RecordFault(IntEnum):
    """Why a records area is not well formed; the numbers are also those of the compiled kernel."""

    TRUNCATED = 1
    VARINT_TOO_LONG = 2
    BAD_LENGTH = 3
    BAD_KEY_LENGTH = 4
    BAD_VALUE_LENGTH = 5
    BAD_HEADER_COUNT = 6
    BAD_HEADER_KEY = 7
    BAD_HEADER_VALUE = 8
    LENGTH_MISMATCH = 9
    MISSING_RECORDS = 10
    BYTES_LEFT = 11
    CHANGED = 12
    NEGATIVE_COUNT = 13
    COUNT_TOO_LARGE = 14


_MESSAGES = {
    RecordFault.TRUNCATED: "a field of record {index} reaches beyond its end",
    RecordFault.VARINT_TOO_LONG: "record {index} has a variable-length integer that is too long",
    RecordFault.BAD_LENGTH: "record {index} has an impossible length",
    RecordFault.BAD_KEY_LENGTH: "record {index} has a key length below -1",
    RecordFault.BAD_VALUE_LENGTH: "record {index} has a value length below -1",
    RecordFault.BAD_HEADER_COUNT: "record {index} has an impossible header count",
    RecordFault.BAD_HEADER_KEY: "record {index} has a header without a key",
    RecordFault.BAD_HEADER_VALUE: "record {index} has a header value length below -1",
    RecordFault.LENGTH_MISMATCH: "the fields of record {index} do not fill its length",
    RecordFault.MISSING_RECORDS: "the batch ends after {index} records, fewer than it announces",
    RecordFault.BYTES_LEFT: "bytes are left after the last of {index} announced records",
    RecordFault.CHANGED: "record {index} changed while it was being read",
    RecordFault.NEGATIVE_COUNT: "the batch announces {index} records",
    RecordFault.COUNT_TOO_LARGE: "the batch announces {index} records, more than fit its bytes",
}
_ABOUT_THE_BATCH = frozenset(
    {
        RecordFault.MISSING_RECORDS,
        RecordFault.BYTES_LEFT,
        RecordFault.NEGATIVE_COUNT,
        RecordFault.COUNT_TOO_LARGE,
    }
)


def malformed_records(fault: int, record_index: int) -> RecordError:
    """Return the INVALID_RECORD error for ``fault`` at the record ``record_index`` of a batch.

    For faults of the whole batch ``record_index`` is a count of records.
    """
    message = _MESSAGES[RecordFault(fault)].format(index=record_index)
    about_record = fault not in _ABOUT_THE_BATCH
    return RecordError(
        ErrorCode.INVALID_RECORD, message, [(record_index, message)] if about_record else ()
    )


def records_too_large() -> RecordError:
    """Return the MESSAGE_TOO_LARGE error for records that no batch can hold."""
    return RecordError(ErrorCode.MESSAGE_TOO_LARGE, "the records exceed 2147483647 bytes")

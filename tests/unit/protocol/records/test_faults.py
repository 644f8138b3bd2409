"""What damaged records are called."""

import pytest

from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.faults import RecordFault, malformed_records, records_too_large


@pytest.mark.parametrize("fault", RecordFault)
def test_a_fault_has_no_words(fault: RecordFault) -> None:
    error = malformed_records(fault, 7)
    assert error.code is ErrorCode.INVALID_RECORD
    assert "7" in error.message
    assert error.record_errors in {(), ((7, error.message),)}


def test_a_fault_of_the_batch_is_blamed_on_a_record() -> None:
    assert malformed_records(RecordFault.BYTES_LEFT, 3).record_errors == ()
    assert malformed_records(RecordFault.TRUNCATED, 3).record_errors[0][0] == 3


def test_too_large_records_are_called_invalid() -> None:
    assert records_too_large().code is ErrorCode.MESSAGE_TOO_LARGE

import logging

import pytest

from seglog.broker.errors import RequestError, describe_error
from seglog.broker.storage.errors import DiskFullError, FileError, OffsetOutOfRangeError
from seglog.config import ConfigError
from seglog.protocol.errors import ErrorCode, RecordError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RecordError(ErrorCode.INVALID_TIMESTAMP, "too old"), ErrorCode.INVALID_TIMESTAMP),
        (RequestError(ErrorCode.INVALID_REQUEST, "twice"), ErrorCode.INVALID_REQUEST),
        (DiskFullError("append to", "x.log", "full"), ErrorCode.KAFKA_STORAGE_ERROR),
        (FileError("sync", "/data", "broken"), ErrorCode.KAFKA_STORAGE_ERROR),
        (OffsetOutOfRangeError(9, 0, 5), ErrorCode.OFFSET_OUT_OF_RANGE),
        (ConfigError("a.b=1: no", "a.b"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_known_errors_keep_their_code_and_their_sentence(error: Exception, code: ErrorCode) -> None:
    assert describe_error(error) == (code, str(error))


def test_unforeseen_error_is_logged_and_tells_the_client_nothing_inside(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        code, message = describe_error(KeyError("/secret/path"))
    assert code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "secret" not in message
    assert "/secret/path" in caplog.text

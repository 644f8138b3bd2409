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


@pytest.mark.parametrize(
    "error",
    [
        RequestError(ErrorCode.INVALID_REQUEST, f"topic {'x' * 40_000!r} is named twice"),
        ConfigError(f"{'x' * 40_000}=1: there is no topic setting of this name", "x"),
    ],
)
def test_a_message_is_too_long_for_its_field(error: Exception) -> None:
    """What it names may be as long as a frame; how it ends is what people have to know."""
    _, message = describe_error(error)
    assert len(message) < 1100
    assert message.startswith(str(error)[:50])
    assert message.endswith(str(error)[-30:])


def test_unforeseen_error_is_logged_and_tells_the_client_nothing_inside(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        code, message = describe_error(KeyError("/secret/path"))
    assert code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "secret" not in message
    assert "/secret/path" in caplog.text

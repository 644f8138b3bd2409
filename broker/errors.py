"""Maps any error inside the broker to the answer of a client: the only such map."""

import logging

from seglog.broker.storage.errors import StorageError
from seglog.config.errors import ConfigError
from seglog.protocol.errors import ErrorCode, RecordError, SeglogError
from seglog.protocol.wording import shortened

logger = logging.getLogger(__name__)


class RequestError(SeglogError):
    """A request, or a part of one, that is answered with an error.

    Args:
        code: the wire error code.
        message: one sentence with the offending values.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def describe_error(error: BaseException) -> tuple[ErrorCode, str]:
    """The wire code and the sentence for a client.

    An unforeseen error becomes UNKNOWN_SERVER_ERROR and is logged with its traceback; the
    client learns only its type.
    """
    match error:
        case RecordError() | RequestError():
            return error.code, shortened(error.message)
        case StorageError():
            return error.code, shortened(str(error))
        case ConfigError():
            return ErrorCode.INVALID_CONFIG, shortened(error.message)
    logger.error("event=unexpected-error", exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker failed: {type(error).__name__}"

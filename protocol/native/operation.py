"""What an operation of the native dialect consists of."""

from typing import NamedTuple

from seglog.protocol.api import ApiKey
from seglog.protocol.native.schema import Message


class Operation(NamedTuple):
    """One operation: both messages, and the versions of them that are spoken."""

    key: ApiKey
    request: Message
    response: Message
    oldest_version: int = 0
    newest_version: int = 0

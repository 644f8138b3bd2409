"""Every operation of the native dialect; ``docs/native-protocol.md`` says it without Python."""

from typing import Final, NamedTuple

from seglog.protocol import api
from seglog.protocol.api import ApiKey
from seglog.protocol.native.declared import DeclaredMessage


class Operation(NamedTuple):
    """One operation: both messages, and the versions of them that are spoken."""

    key: ApiKey
    request: DeclaredMessage
    response: DeclaredMessage
    oldest_version: int = 0
    newest_version: int = 0


ALL_OPERATIONS: Final[tuple[Operation, ...]] = tuple(
    Operation(each.key, DeclaredMessage(each.request_class), DeclaredMessage(each.response_class))
    for each in api.OPERATIONS
    if each.is_native
)
OPERATION_OF_KEY: Final = {int(operation.key): operation for operation in ALL_OPERATIONS}
OPERATION_OF_REQUEST: Final = {operation.request.shape: operation for operation in ALL_OPERATIONS}
assert len(OPERATION_OF_KEY) == len(OPERATION_OF_REQUEST) == len(ALL_OPERATIONS)

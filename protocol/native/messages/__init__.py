"""Every operation of the native dialect; ``docs/native-protocol.md`` says it without Python."""

from typing import Final

from seglog.protocol import api
from seglog.protocol.native.declared import DeclaredMessage
from seglog.protocol.native.messages import (
    data,
    groups,
    producers,
    transactions,
)
from seglog.protocol.native.operation import Operation

ALL_OPERATIONS: Final[tuple[Operation, ...]] = (
    *data.OPERATIONS,
    *groups.OPERATIONS,
    *producers.OPERATIONS,
    *transactions.OPERATIONS,
    *(
        Operation(
            each.key, DeclaredMessage(each.request_class), DeclaredMessage(each.response_class)
        )
        for each in api.OPERATIONS
        if each.is_native
    ),
)
OPERATION_OF_KEY: Final = {int(operation.key): operation for operation in ALL_OPERATIONS}
OPERATION_OF_REQUEST: Final = {operation.request.shape: operation for operation in ALL_OPERATIONS}
assert len(OPERATION_OF_KEY) == len(OPERATION_OF_REQUEST) == len(ALL_OPERATIONS)

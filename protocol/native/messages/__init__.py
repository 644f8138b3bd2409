"""Every operation of the native dialect, its messages declared once, in the order of the wire.

To add one: a ``Message`` for each of its dataclasses and a line in the ``OPERATIONS`` of the module
that mirrors ``seglog.protocol.api``. ``docs/native-protocol.md`` says the same without Python.
"""

from typing import Final

from seglog.protocol.native.messages import (
    cluster,
    configs,
    data,
    groups,
    housekeeping,
    offsets,
    producers,
    topics,
    transactions,
)
from seglog.protocol.native.operation import Operation

ALL_OPERATIONS: Final[tuple[Operation, ...]] = (
    *data.OPERATIONS,
    *topics.OPERATIONS,
    *configs.OPERATIONS,
    *cluster.OPERATIONS,
    *groups.OPERATIONS,
    *offsets.OPERATIONS,
    *producers.OPERATIONS,
    *transactions.OPERATIONS,
    *housekeeping.OPERATIONS,
)
OPERATION_OF_KEY: Final = {int(operation.key): operation for operation in ALL_OPERATIONS}
OPERATION_OF_REQUEST: Final = {operation.request.shape: operation for operation in ALL_OPERATIONS}
assert len(OPERATION_OF_KEY) == len(OPERATION_OF_REQUEST) == len(ALL_OPERATIONS)

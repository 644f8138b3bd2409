"""Every declared operation: one line for each module of them."""

from typing import Final

from seglog.protocol.api import group_offsets, housekeeping, log_offsets, transactions
from seglog.protocol.declaration.operation import Operation

OPERATIONS: Final[tuple[Operation, ...]] = (
    *group_offsets.OPERATIONS,
    *housekeeping.OPERATIONS,
    *log_offsets.OPERATIONS,
    *transactions.OPERATIONS,
)

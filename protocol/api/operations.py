"""Every declared operation: one line for each module of them."""

from typing import Final

from seglog.protocol.api import (
    cluster,
    configs,
    group_offsets,
    housekeeping,
    log_offsets,
    metadata,
    topics,
    transactions,
)
from seglog.protocol.declaration.operation import Operation

OPERATIONS: Final[tuple[Operation, ...]] = (
    *metadata.OPERATIONS,
    *topics.OPERATIONS,
    *configs.OPERATIONS,
    *cluster.OPERATIONS,
    *group_offsets.OPERATIONS,
    *housekeeping.OPERATIONS,
    *log_offsets.OPERATIONS,
    *transactions.OPERATIONS,
)

"""Every operation: one line for each module of them."""

from typing import Final

from seglog.protocol.api import (
    cluster,
    configs,
    fetch,
    group_offsets,
    groups,
    housekeeping,
    log_offsets,
    metadata,
    produce,
    producers,
    topics,
    transactions,
)
from seglog.protocol.declaration.operation import Operation

OPERATIONS: Final[tuple[Operation, ...]] = (
    *produce.OPERATIONS,
    *fetch.OPERATIONS,
    *log_offsets.OPERATIONS,
    *metadata.OPERATIONS,
    *topics.OPERATIONS,
    *configs.OPERATIONS,
    *cluster.OPERATIONS,
    *groups.OPERATIONS,
    *group_offsets.OPERATIONS,
    *producers.OPERATIONS,
    *transactions.OPERATIONS,
    *housekeeping.OPERATIONS,
)

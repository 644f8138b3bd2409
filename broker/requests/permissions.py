"""What a client may do with a resource: without access control everything that can be done to it.

The numbers are those of Kafka's ACL operations; a set of them is a number with these bits.
"""

from enum import IntEnum
from typing import Final


class _Operation(IntEnum):
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _bits(*operations: _Operation) -> int:
    return sum(1 << operation for operation in operations)


ALL_GROUP_OPERATIONS: Final = _bits(_Operation.READ, _Operation.DELETE, _Operation.DESCRIBE)
ALL_TOPIC_OPERATIONS: Final = _bits(
    _Operation.READ,
    _Operation.WRITE,
    _Operation.CREATE,
    _Operation.DELETE,
    _Operation.ALTER,
    _Operation.DESCRIBE,
    _Operation.DESCRIBE_CONFIGS,
    _Operation.ALTER_CONFIGS,
)
ALL_CLUSTER_OPERATIONS: Final = _bits(
    _Operation.CREATE,
    _Operation.ALTER,
    _Operation.DESCRIBE,
    _Operation.CLUSTER_ACTION,
    _Operation.DESCRIBE_CONFIGS,
    _Operation.ALTER_CONFIGS,
    _Operation.IDEMPOTENT_WRITE,
)

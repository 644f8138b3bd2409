"""Fields that many messages share, in one spelling."""

from typing import Final

from seglog.protocol.native.fields import (
    ERROR,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    enum_of,
    list_of,
    tuple_of,
)
from seglog.protocol.types import IsolationLevel

ISOLATION: Final = enum_of(IsolationLevel)
NAMES: Final = list_of(STRING)
PLACE: Final = {"topic": STRING, "partition": INT32}
PLACES: Final = list_of(tuple_of(STRING, INT32))
PRODUCER: Final = {"producer_id": INT64, "producer_epoch": INT16}
OUTCOME: Final = {"error": ERROR, "error_message": NULLABLE_STRING}
THROTTLE: Final = {"throttle_time_ms": INT32}

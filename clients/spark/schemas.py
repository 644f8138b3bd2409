"""The rows that Spark sees: names and types, and the same in Arrow.

They are those of Spark's own Kafka source, so that a query needs only another format. Spark
refuses a first batch whose Arrow schema is not exactly what it derives from the row schema: order,
types, nullability, and microseconds in UTC in any zone of the session.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from seglog.clients.errors import ConfigurationError

HEADERS: Final = "headers"
HEADERS_TYPE: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
_ROW_TYPES: Final = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: HEADERS_TYPE,
}
_ARROW_TYPES: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    HEADERS: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}
COLUMNS: Final = tuple(_ROW_TYPES)
"""All columns in their order; ``headers``, the last one, only comes where it is asked for."""


def row_schema(columns: Sequence[str]) -> StructType:
    """The schema of rows with these columns."""
    return StructType([StructField(name, _ROW_TYPES[name]) for name in columns])


@cache
def arrow_schema(columns: tuple[str, ...]) -> pa.Schema:
    """The schema of record batches with these columns."""
    return pa.schema([(name, _ARROW_TYPES[name]) for name in columns])


def check_row_schema(given: StructType, columns: Sequence[str]) -> None:
    """Raise ``ConfigurationError`` if a read was given another schema than it has."""
    wanted = row_schema(columns)
    if [(each.name, each.dataType) for each in given] != [
        (each.name, each.dataType) for each in wanted
    ]:
        raise ConfigurationError(
            f"the schema of this source is fixed, {wanted.simpleString()}, not "
            f"{given.simpleString()}; choose columns with the option 'columns'"
        )

"""Records as columns in Arrow's layout, and back: compiled kernels or their Python twins.

``RecordColumns`` takes the records areas of batches and gives back buffers that an Arrow library
wraps without a copy; ``place_rows`` and ``encode_columns`` make records areas from the buffers of
Arrow columns. No Python object is made for a record. ``_pure_arrow.py`` documents them.
"""

from typing import TYPE_CHECKING

from seglog.protocol.records import kernel
from seglog.protocol.records._pure_arrow import (
    BinaryBuffers,
    BinaryColumn,
    ColumnBuffers,
    HeaderBuffers,
    HeaderColumns,
    NumberColumn,
    RowColumns,
)

if TYPE_CHECKING or not kernel.COMPILED:
    from seglog.protocol.records._pure_arrow import RecordColumns, encode_columns, place_rows
else:
    from seglog.protocol._kernel import RecordColumns, encode_columns, place_rows

__all__ = [
    "BinaryBuffers",
    "BinaryColumn",
    "ColumnBuffers",
    "HeaderBuffers",
    "HeaderColumns",
    "NumberColumn",
    "RecordColumns",
    "RowColumns",
    "encode_columns",
    "place_rows",
]

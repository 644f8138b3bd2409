"""Small micro-batches, read by the driver's own Python process instead of a task's.

Any task that runs Python costs some 20 ms. For sources that have few records
(``SimpleDataSourceStreamReader``) Spark has a way around it: what their reader hands out together
with the partitions is kept in Spark's block manager, from where tasks take it inside the JVM; where
it is not there any more, they read as ever. The runner of streaming sources asks for it if the
reader is a ``_SimpleStreamReaderWrapper``, so ours becomes one for the moment between
``partitions`` and ``getCache``. A PySpark without that class reads everything in tasks.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import datasource_internal
from pyspark.sql.datasource import InputPartition

from seglog.clients.spark.range_reader import read_splits
from seglog.clients.spark.source_options import SourceOptions
from seglog.clients.spark.splits import RangeSplit
from seglog.clients.spark.stream_reader import SeglogStreamReader, WrittenOffsets

MAX_BYTES: Final = 1_048_576
"""Of Arrow data; a micro-batch that turns out to have more is left to tasks."""

_Wrapper: Any = getattr(datasource_internal, "_SimpleStreamReaderWrapper", None)


class SmallBatches:
    """Reads splits that are worth it.

    Args:
        options: of the source; ``driver_records`` is the largest number of offsets.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._record_bytes = 0.0

    def read(self, splits: Sequence[RangeSplit]) -> list[pa.RecordBatch] | None:
        """All records of the splits; None if there are too many, or they are too large."""
        count = sum(each.count for split in splits for each in split.ranges)
        if len(splits) != 1 or count > self._options.driver_records:
            return None
        if self._record_bytes * count > MAX_BYTES:
            return None
        found: list[pa.RecordBatch] = []
        rows = size = 0
        batches = read_splits(self._options, splits[0])
        try:
            for batch in batches:
                rows, size = rows + batch.num_rows, size + batch.nbytes
                if size > MAX_BYTES:
                    # Not tried again with as many such records: they would be read twice.
                    self._record_bytes = size / rows
                    return None
                found.append(batch)
        finally:
            batches.close()
        return found


class DriverReadingReader(SeglogStreamReader):
    """The streaming source, which reads small micro-batches itself."""

    def _forget(self) -> None:
        super()._forget()
        self._small = SmallBatches(self.options)
        self._batches: list[pa.RecordBatch] = []

    def partitions(self, start: WrittenOffsets, end: WrittenOffsets) -> Sequence[InputPartition]:
        """The splits of a batch; with its records, if it is small."""
        splits = super().partitions(start, end)
        batches = self._small.read([each for each in splits if isinstance(each, RangeSplit)])
        if batches is not None and _Wrapper is not None:
            self._batches = batches
            self.__class__ = _OfferingReader
        return splits


class _OfferingReader(DriverReadingReader, _Wrapper or object):  # type: ignore[misc]
    """The same reader while it has records to offer."""

    def getCache(  # noqa: N802 - Spark's name
        self,
        start: WrittenOffsets,  # noqa: ARG002 - given by Spark
        end: WrittenOffsets,  # noqa: ARG002 - given by Spark
    ) -> Iterator[pa.RecordBatch]:
        """The records of the batch that was just planned."""
        self.__class__ = DriverReadingReader  # pyright: ignore[reportAttributeAccessIssue]
        batches, self._batches = self._batches, []
        return iter(batches)

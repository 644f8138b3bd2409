"""``format("seglog.files")``: batch reads of segment files, in parallel, with no broker running."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from seglog.clients.spark.arrow_batches import BatchAssembler
from seglog.clients.spark.file_options import FileOptions, read_file_options
from seglog.clients.spark.planning import LOG
from seglog.clients.spark.prefetch import Prefetcher
from seglog.clients.spark.schemas import check_row_schema, row_schema
from seglog.clients.spark.segment_files import SegmentFile, find_segments, read_segment
from seglog.protocol.errors import RecordError

_CHUNKS_AHEAD = 2


class SeglogFilesDataSource(DataSource):
    """Data folders of a seglog (or Kafka) broker: a mounted copy, or a backup."""

    @classmethod
    def name(cls) -> str:
        """For ``format()``."""
        return "seglog.files"

    def schema(self) -> StructType:
        """The columns; raises ``ConfigurationError`` for options that cannot be."""
        return row_schema(read_file_options(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The batch source; there is no other."""
        options = read_file_options(self.options)
        check_row_schema(schema, options.columns)
        return SeglogFilesReader(options)


@dataclass(frozen=True)
class SegmentSplit(InputPartition):
    """The segments that one task reads."""

    segments: tuple[SegmentFile, ...]


class SeglogFilesReader(DataSourceReader):
    """Reads each segment in one task, small ones together."""

    def __init__(self, options: FileOptions) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        """The splits; tasks must see the files under the same paths."""
        splits: list[SegmentSplit] = []
        open_bytes = self.options.task_bytes
        for segment in find_segments(self.options.paths, self.options.topics):
            open_bytes += segment.size_bytes
            if not splits or open_bytes > self.options.task_bytes:
                splits.append(SegmentSplit((segment,)))
                open_bytes = segment.size_bytes
            else:
                splits[-1] = SegmentSplit((*splits[-1].segments, segment))
        return splits

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a split, in a task."""
        if not isinstance(partition, SegmentSplit):
            return iter(())  # Where there is nothing to read Spark makes up a partition.
        return (batch for segment in partition.segments for batch in _read(segment, self.options))


def _read(segment: SegmentFile, options: FileOptions) -> Iterator[pa.RecordBatch]:
    """Yield the records of a segment; a corrupt rest is reported, or fails the task."""
    assembler = BatchAssembler(
        segment.partition, options.columns, options.batch_rows, options.batch_bytes
    )
    chunks = Prefetcher(
        read_segment(segment, check_crcs=options.check_crcs), _CHUNKS_AHEAD, lambda: None
    )
    try:
        for batches in chunks:
            yield from assembler.add(batches, segment.start, segment.end)
    except RecordError as error:
        if options.fails_on_corruption:
            raise
        LOG.warning("%s: %s", segment.partition, error.message)
    finally:
        chunks.close()
    yield from assembler.finish()

"""What a task does to read its split: fetch on one thread, fill columns on the other."""

from collections.abc import Generator
from typing import Final

import pyarrow as pa

from seglog.clients.errors import CorruptRecordError
from seglog.clients.spark.arrow_batches import BatchAssembler
from seglog.clients.spark.prefetch import Prefetcher
from seglog.clients.spark.range_fetcher import FetchedRecords, RangeFetcher
from seglog.clients.spark.source_options import SourceOptions
from seglog.clients.spark.splits import RangeSplit
from seglog.protocol.errors import RecordError

_ANSWERS_AHEAD: Final = 4


def read_splits(options: SourceOptions, split: RangeSplit) -> Generator[pa.RecordBatch]:
    """Yield the records of the split's ranges.

    Raises:
        DataLossError: something is not there any more, with ``failOnDataLoss``.
        CorruptRecordError: a batch fails its checksum or makes no sense.
        ClientError: a broker refused, or was away for too long.
    """
    fetcher = RangeFetcher(options)
    answers: Prefetcher[FetchedRecords] = Prefetcher(
        fetcher.run(split.ranges), _ANSWERS_AHEAD, fetcher.interrupt
    )
    assembler: BatchAssembler | None = None
    try:
        for whole, first_offset, areas, is_last in answers:
            if assembler is None:
                assembler = BatchAssembler(
                    whole.partition, options.columns, options.batch_rows, options.batch_bytes
                )
            try:
                yield from assembler.add(areas, first_offset, whole.end)
            except RecordError as error:
                raise CorruptRecordError(whole.partition, first_offset, error.message) from error
            if is_last:
                yield from assembler.finish()
                assembler = None
    finally:
        answers.close()

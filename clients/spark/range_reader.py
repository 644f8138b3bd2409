"""What a task does to read its split: fetch on one thread, fill columns on the other."""

from collections.abc import Generator, Iterable
from typing import Final

import pyarrow as pa

from seglog.clients.errors import CorruptRecordError
from seglog.clients.spark.arrow_batches import BatchAssembler, SmallBatchMerger
from seglog.clients.spark.prefetch import Prefetcher
from seglog.clients.spark.range_fetcher import FetchedRecords, RangeFetcher
from seglog.clients.spark.source_options import SourceOptions
from seglog.clients.spark.splits import OffsetRange, RangeSplit
from seglog.protocol.errors import RecordError

_ANSWERS_AHEAD: Final = 4


def read_splits(options: SourceOptions, split: RangeSplit) -> Generator[pa.RecordBatch]:
    """Yield the records of the split's ranges.

    Raises:
        DataLossError: something is not there any more, with ``failOnDataLoss``.
        CorruptRecordError: a batch fails its checksum or makes no sense.
        ClientError: a broker refused, or was away for too long.
    """
    merger = SmallBatchMerger(options.batch_rows, options.batch_bytes)
    fetcher = RangeFetcher(options)
    answers: Prefetcher[FetchedRecords] = Prefetcher(
        fetcher.run(split.ranges), _ANSWERS_AHEAD, fetcher.interrupt
    )
    try:
        for batch in _assembled(answers, options):
            yield from merger.add(batch)
        yield from merger.finish()
    finally:
        answers.close()


def _assembled(
    answers: Iterable[FetchedRecords], options: SourceOptions
) -> Generator[pa.RecordBatch]:
    """Fill columns, for one range at a time: of others nothing is held meanwhile."""
    assembler: BatchAssembler | None = None
    current: OffsetRange | None = None
    for whole, first_offset, batches in answers:
        if assembler is None or whole is not current:
            if assembler is not None:
                yield from assembler.finish()
            current = whole
            assembler = BatchAssembler(
                whole.partition, options.columns, options.batch_rows, options.batch_bytes
            )
        try:
            yield from assembler.add(batches, first_offset, whole.end)
        except RecordError as error:
            raise CorruptRecordError(
                whole.partition, assembler.batch_offset, error.message
            ) from error
    if assembler is not None:
        yield from assembler.finish()

"""The streaming sink."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from seglog.clients.spark.sink_options import SinkColumns, SinkOptions
from seglog.clients.spark.writers import (
    RowWriter,
    current_micro_batch,
    note_commit,
    warn_of_rest,
)


class SeglogStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches; one that was committed is not written again.

    Tasks and the driver each have an instance of their own, made anew for every micro-batch: they
    share nothing but the messages.
    """

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self.options = options
        self.columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Store the rows of a task."""
        micro_batch = current_micro_batch(self.options)
        return RowWriter(self.options, self.columns).write(iterator, micro_batch)

    def commit(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: ARG002, N803 - Spark's name; tasks know it too
    ) -> None:
        """Note the micro-batch: it will not be written again."""
        note_commit(self.options, messages)

    def abort(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: ARG002, N803 - Spark's name; tasks know it too
    ) -> None:
        """Say what stays behind; the micro-batch will be tried again."""
        warn_of_rest(messages)

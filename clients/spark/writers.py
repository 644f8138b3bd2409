"""The sink: what tasks write, and what the driver commits.

A micro-batch is written in two steps. Tasks store rows and say so in their message; the driver,
once all have, notes the number of the micro-batch for the application (``sink_commits``). A task
that finds its micro-batch noted writes nothing. Exactly-once needs no other shape: with
transactions, ``RowWriter`` stages under the transaction of its attempt, its message names that,
and the note and the decision about all transactions become one step.
"""

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from seglog.clients.spark.cluster import Cluster
from seglog.clients.spark.planning import LOG
from seglog.clients.spark.produce_pipeline import ProducePipeline
from seglog.clients.spark.sink_commits import CommitsReader, create_commits_topic, write_commit
from seglog.clients.spark.sink_encoding import encode_rows, rows_by_topic
from seglog.clients.spark.sink_options import SinkColumns, SinkOptions


@dataclass(frozen=True)
class MicroBatch:
    """Which micro-batch of which application rows belong to."""

    application: str
    number: int


@dataclass(frozen=True)
class WrittenRows(WriterCommitMessage):
    """What a task has done.

    Attributes:
        micro_batch: to be noted by the driver; None for a write that is remembered by nobody.
        rows: how many it has stored.
        is_skipped: they were committed before, so none was stored.
    """

    micro_batch: MicroBatch | None
    rows: int
    is_skipped: bool


class RowWriter:
    """Stores the rows of one task.

    Args:
        options: of the sink.
        columns: where the columns are in the rows.
    """

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    def write(
        self, batches: Iterator[pa.RecordBatch], micro_batch: MicroBatch | None
    ) -> WrittenRows:
        """Store all rows; returns once they are acknowledged.

        Raises:
            InvalidRecordError: a row that cannot be a record.
            BrokerError: a broker refused.
            ClientError: a broker was away for too long.
        """
        if micro_batch is not None and _is_committed(self._options, micro_batch):
            for _ in batches:
                pass  # Spark expects that a task takes its rows.
            LOG.warning("%s was committed before and is not written again", micro_batch)
            return WrittenRows(micro_batch, 0, True)
        cluster = Cluster(self._options.servers, self._options.connection)
        pipeline = ProducePipeline(cluster, self._options)
        rows = 0
        # Rows without a key go to one partition for each record batch, begun anywhere, so that
        # tasks do not all fill the same one.
        turns = itertools.count(int.from_bytes(os.urandom(4), "big"))
        try:
            for batch in batches:
                rows += batch.num_rows
                self._send(batch, cluster, pipeline, next(turns))
            pipeline.finish()
        finally:
            pipeline.close()
        return WrittenRows(micro_batch, rows, False)

    def _send(
        self, batch: pa.RecordBatch, cluster: Cluster, pipeline: ProducePipeline, turn: int
    ) -> None:
        now_ms = time.time_ns() // 1_000_000
        for topic, rows in rows_by_topic(batch, self._columns, self._options):
            count = len(cluster.retry(partial(cluster.topic, topic)).leaders)
            waves = encode_rows(
                topic,
                rows,
                self._columns,
                self._options,
                count,
                turn % count,
                now_ms,
                pipeline.numbering(),
            )
            for wave in waves:
                pipeline.send(wave)


class SeglogBatchWriter(DataSourceArrowWriter):
    """The batch sink; in ``foreachBatch`` it may also belong to a micro-batch."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self.options = options
        self.columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Store the rows of a task."""
        micro_batch = None
        if self.options.application_id:
            micro_batch = current_micro_batch(self.options)
        return RowWriter(self.options, self.columns).write(iterator, micro_batch)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Note the micro-batch, if it is one."""
        note_commit(self.options, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say what stays behind."""
        warn_of_rest(messages)


def current_micro_batch(options: SinkOptions) -> MicroBatch | None:
    """The micro-batch that the running task belongs to; None outside of a streaming query.

    The id of a query stays the same for all restarts from one checkpoint, and numbers of
    micro-batches grow within one checkpoint.
    """
    context = TaskContext.get()
    if context is None:
        return None
    query = context.getLocalProperty("sql.streaming.queryId")
    number = context.getLocalProperty("streaming.sql.batchId")
    if query is None or number is None:
        return None
    return MicroBatch(f"{options.application_id or 'sink'}/{query}", int(number))


def note_commit(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Remember durably that a micro-batch is wholly stored."""
    written = [message for message in messages if isinstance(message, WrittenRows)]
    to_note = {each.micro_batch for each in written if each.micro_batch and not each.is_skipped}
    if to_note:
        cluster = Cluster(options.servers, options.connection)
        create_commits_topic(cluster)
        for micro_batch in to_note:
            write_commit(cluster, micro_batch.application, micro_batch.number)


def warn_of_rest(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Rows of tasks that succeeded stay in the topics although the job failed."""
    rows = sum(message.rows for message in messages if isinstance(message, WrittenRows))
    if rows:
        LOG.warning("a write failed as a whole, but %d of its rows are stored", rows)


def _is_committed(options: SinkOptions, micro_batch: MicroBatch) -> bool:
    reader = _commits_reader(options, os.getpid())
    return micro_batch.number <= reader.last_committed(micro_batch.application)


@cache
def _commits_reader(options: SinkOptions, _: int) -> CommitsReader:
    """One for each worker process, which lives longer than a task."""
    return CommitsReader(Cluster(options.servers, options.connection))

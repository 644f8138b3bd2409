"""The sink: what tasks write, and what the driver commits.

A micro-batch is written in two steps. Tasks store rows and say so in their message; the driver,
once all have, notes the number of the micro-batch for the application (``sink_commits``). A task
that finds its micro-batch noted writes nothing to the topics that hold it. Exactly-once needs no
other shape: with transactions, ``RowWriter`` stages under the transaction of its attempt, its
message names that, and the note and the decision about all transactions become one step.
"""

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial, reduce

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from seglog.clients.spark.cluster import Cluster
from seglog.clients.spark.finished_batches import FinishedBatch, Tally, check_order, check_same
from seglog.clients.spark.planning import LOG
from seglog.clients.spark.produce_pipeline import ProducePipeline
from seglog.clients.spark.sink_commits import CommitsReader, create_commits_topic, write_commit
from seglog.clients.spark.sink_encoding import (
    Destination,
    encode_rows,
    rows_by_topic,
    tally_of,
)
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
        micro_batch: to be noted by the driver; None for a write without a note.
        tally: of the rows that Spark gave to it.
        rows: how many of them it has stored; the others were stored before.
        topics: the id, in hexadecimal, of each topic that has the rows now.
        is_repeated: the micro-batch is the one that was finished last.
    """

    micro_batch: MicroBatch | None
    tally: Tally
    rows: int
    topics: dict[str, str] = field(default_factory=dict)
    is_repeated: bool = False


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
            CheckpointError: the micro-batch cannot follow the stored note.
            InvalidRecordError: a row that cannot be a record.
            BrokerError: a broker refused.
            ClientError: a broker was away for too long.
        """
        last = self._repeated(micro_batch)
        held = {} if last is None else last.topics
        tally, stored = Tally(0, 0), 0
        topics: dict[str, str] = {}
        cluster = Cluster(self._options.servers, self._options.connection, creates_topics=True)
        pipeline = ProducePipeline(cluster, self._options)
        # Rows without a key go to one partition for each record batch, begun anywhere, so that
        # tasks do not all fill the same one.
        turns = itertools.count(int.from_bytes(os.urandom(4), "big"))
        try:
            for batch in batches:
                tally = tally.plus(tally_of(batch, self._columns))
                turn, now_ms = next(turns), time.time_ns() // 1_000_000
                for name, rows in rows_by_topic(batch, self._columns, self._options):
                    topic = cluster.retry(partial(cluster.topic, name))
                    topics[name] = topic.topic_id.hex()
                    if held.get(name) == topics[name]:
                        continue
                    stored += rows.num_rows
                    count = topic.partition_count
                    self._send(rows, Destination(name, count, turn % count, now_ms), pipeline)
            pipeline.finish()
        finally:
            pipeline.close()
        return WrittenRows(micro_batch, tally, stored, topics, last is not None)

    def _repeated(self, micro_batch: MicroBatch | None) -> FinishedBatch | None:
        """The note of this micro-batch, if it is the last finished one."""
        last = None if micro_batch is None else _last_finished(self._options, micro_batch)
        if micro_batch is None or last is None:
            return None
        check_order(micro_batch.application, micro_batch.number, self._options.topic, last)
        if micro_batch.number > last.number:
            return None
        LOG.warning("%s was finished before and is not written again", micro_batch)
        return last

    def _send(
        self, rows: pa.RecordBatch, destination: Destination, pipeline: ProducePipeline
    ) -> None:
        identity = pipeline.identity()
        for wave in encode_rows(rows, self._columns, self._options, destination, identity):
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
    """Remember durably that a micro-batch is wholly stored.

    Raises:
        CheckpointError: it was not written, having the number of one that was finished before,
            but it has other rows than that.
    """
    written = [message for message in messages if isinstance(message, WrittenRows)]
    micro_batches = {each.micro_batch for each in written if each.micro_batch is not None}
    for micro_batch in micro_batches:
        mine = [each for each in written if each.micro_batch == micro_batch]
        finished = FinishedBatch(
            micro_batch.number,
            reduce(Tally.plus, (each.tally for each in mine)),
            {name: topic_id for each in mine for name, topic_id in each.topics.items()},
        )
        last = None
        if any(each.is_repeated for each in mine):
            last = _last_finished(options, micro_batch)
        if last is not None:
            check_same(micro_batch.application, micro_batch.number, finished.tally, last)
        if finished != last:
            cluster = Cluster(options.servers, options.connection)
            create_commits_topic(cluster)
            write_commit(cluster, micro_batch.application, finished)


def warn_of_rest(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Rows of tasks that succeeded stay in the topics although the job failed."""
    rows = sum(message.rows for message in messages if isinstance(message, WrittenRows))
    if rows:
        LOG.warning("a write failed as a whole, but %d of its rows are stored", rows)


def _last_finished(options: SinkOptions, micro_batch: MicroBatch) -> FinishedBatch | None:
    return _commits_reader(options, os.getpid()).last_finished(micro_batch.application)


@cache
def _commits_reader(options: SinkOptions, _: int) -> CommitsReader:
    """One for each worker process, which lives longer than a task."""
    return CommitsReader(Cluster(options.servers, options.connection))

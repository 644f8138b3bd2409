"""What the broker remembers of the sink: the last micro-batch that each application committed.

A compacted topic holds one record for each application: its key says which, its value is JSON with
the number of the micro-batch, how many rows and bytes it had, and the ids of the topics that hold
it. The driver writes it once a micro-batch is wholly stored, with all replicas and the disk
acknowledging, and the tasks of the next one read it. Numbers only grow, so a reader that sees a
record of before its compaction loses nothing.
"""

import time
from typing import Final

from seglog.clients.errors import OffsetOutOfRangeError, broker_error
from seglog.clients.spark.cluster import Cluster
from seglog.clients.spark.finished_batches import FinishedBatch
from seglog.protocol.api import (
    CreateTopicsRequest,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    NewTopic,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.batch import iter_batches
from seglog.protocol.records.builder import build_batch
from seglog.protocol.types import Acks, TopicPartition

COMMITS_TOPIC: Final = "__seglog_sink_commits"
_COMMITS: Final = TopicPartition(COMMITS_TOPIC, 0)
_FETCH_BYTES: Final = 1_048_576
_CONFIGS: Final[dict[str, str | None]] = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.1",
    "flush.messages": "1",
}


def create_commits_topic(cluster: Cluster) -> None:
    """Create the topic unless it exists."""
    if COMMITS_TOPIC in cluster.topics([COMMITS_TOPIC]):
        return
    request = CreateTopicsRequest([NewTopic(COMMITS_TOPIC, 1, configs=dict(_CONFIGS))])
    (result,) = cluster.retry(lambda: cluster.ask_any(request)).topics
    if result.error not in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
        raise broker_error(result.error, result.error_message, COMMITS_TOPIC)


def write_commit(cluster: Cluster, application: str, finished: FinishedBatch) -> None:
    """Remember that an application has finished a micro-batch; returns once that is on disk."""
    now_ms = time.time_ns() // 1_000_000
    records = build_batch([(now_ms, application.encode(), finished.encode(), ())])
    request = ProduceRequest(
        int(Acks.ALL),
        cluster.config.request_timeout_ms,
        [ProducePartition(*_COMMITS, memoryview(records))],
    )

    def produce() -> None:
        response: ProduceResponse = cluster.ask(cluster.leader(_COMMITS), request)
        (result,) = response.partitions
        if result.error is not ErrorCode.NONE:
            raise broker_error(result.error, result.error_message, COMMITS_TOPIC)

    cluster.retry(produce)


class CommitsReader:
    """Follows the topic: each question reads on where the last one ended.

    Args:
        cluster: where the topic is.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topic_id = b""
        self._position = 0
        self._last: dict[str, FinishedBatch] = {}

    def last_finished(self, application: str) -> FinishedBatch | None:
        """The last micro-batch that an application has finished, None if there is none."""
        self._cluster.forget(COMMITS_TOPIC)
        topic = self._cluster.topics([COMMITS_TOPIC]).get(COMMITS_TOPIC)
        if topic is None:
            return None
        if topic.topic_id != self._topic_id:
            self._topic_id, self._position, self._last = topic.topic_id, 0, {}
        while self._cluster.retry(self._read_on):
            pass
        return self._last.get(application)

    def _read_on(self) -> bool:
        """Read one answer; whether there may be more."""
        asked = FetchPartition(*_COMMITS, self._position, _FETCH_BYTES)
        request = FetchRequest(0, 0, _FETCH_BYTES, [asked])
        response: FetchResponse = self._cluster.ask(self._cluster.leader(_COMMITS), request)
        (result,) = response.partitions
        if result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            if result.high_watermark < self._position:
                raise OffsetOutOfRangeError(
                    f"{COMMITS_TOPIC} ends at {result.high_watermark}, but {self._position} "
                    "was read before: the broker has lost what it acknowledged",
                    partition=_COMMITS,
                    offset=self._position,
                    log_start_offset=result.log_start_offset,
                    end_offset=result.high_watermark,
                )
            self._position = result.log_start_offset
            return True
        if result.error is not ErrorCode.NONE:
            raise broker_error(result.error, result.error_message, COMMITS_TOPIC)
        before = self._position
        if isinstance(result.records, memoryview):
            for batch in iter_batches(result.records):
                batch.check()
                for record in batch.records(from_offset=self._position):
                    if record.key is not None and record.value is not None:
                        application = record.key.decode()
                        finished = FinishedBatch.decode(record.value)
                        known = self._last.get(application)
                        if known is None or finished.number >= known.number:
                            self._last[application] = finished
                self._position = max(self._position, batch.header.next_offset)
        return self._position > before

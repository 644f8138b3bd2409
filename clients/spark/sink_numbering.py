"""The numbers of the sink's batches, by which the broker stores each once and in order.

A worker process keeps the ids that it was given: one task after the other goes on where the last
one ended, so that brokers do not have to remember a producer for each task. An id is only used
again if all that was numbered under it is acknowledged.
"""

import os
import threading
from typing import Final

from seglog.clients.errors import broker_error
from seglog.clients.spark.cluster import Cluster
from seglog.protocol.api import InitProducerIdRequest, InitProducerIdResponse
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import INT32_MAX, TopicPartition

_IDLE_PER_CLUSTER_MAX: Final = 8


class Numbering:
    """Numbers the batches of one producer id; those of a partition leave in the same order.

    Args:
        producer_id: given by a broker.
        epoch: given with it.
    """

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self._next: dict[TopicPartition, int] = {}

    def take(self, partition: TopicPartition, records: int) -> int:
        """The number of the first record of the next batch."""
        first = self._next.get(partition, 0)
        self._next[partition] = (first + records) & INT32_MAX
        return first


class NumberingPool:
    """Numberings of this process that nobody uses now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process_id = os.getpid()
        self._idle: dict[str, list[Numbering]] = {}

    def acquire(self, cluster: Cluster) -> Numbering:
        """One that is used by nobody else; asks for a new id if there is none.

        Args:
            cluster: ids are worth something in the cluster that gave them, not in another one at
                the same address.

        Raises:
            ClientError: no broker gave an id.
        """
        cluster_id = cluster.cluster_id
        with self._lock:
            if self._process_id != os.getpid():
                # Forked: the parent goes on with the same ones.
                self._idle, self._process_id = {}, os.getpid()
            idle = self._idle.get(cluster_id)
            if idle:
                return idle.pop()
        response: InitProducerIdResponse = cluster.retry(lambda: _ask_for_id(cluster))
        return Numbering(response.producer_id, response.producer_epoch)

    def release(self, cluster: Cluster, numbering: Numbering) -> None:
        """Give one back under which everything is acknowledged; others are to be forgotten."""
        with self._lock:
            idle = self._idle.setdefault(cluster.cluster_id, [])
            if len(idle) < _IDLE_PER_CLUSTER_MAX:
                idle.append(numbering)


def _ask_for_id(cluster: Cluster) -> InitProducerIdResponse:
    response: InitProducerIdResponse = cluster.ask_any(InitProducerIdRequest())
    if response.error is not ErrorCode.NONE:
        raise broker_error(response.error, None, "producer id")
    return response


NUMBERINGS: Final = NumberingPool()
"""The pool of this process."""

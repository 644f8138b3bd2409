"""Fetches of data that has left the page cache: read in a worker before the answer is sent."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from seglog.broker.partition.counters import BrokerCounters
from seglog.broker.runtime.workers import WorkerPool
from seglog.broker.storage.files.log_file import FileSlice
from seglog.broker.storage.files.page_cache import bring_in, is_resident
from seglog.protocol.api import FetchResponse

logger = logging.getLogger(__name__)


class ColdReads:
    """Delays answers whose records are not in memory until a worker has read them.

    Args:
        pool: for what waits for disks; a job each for as many answers as it has threads.
        counters: of the broker; ``cold_fetches`` counts the delayed ones.
        release: releases the slices of an answer without a waiting client.
    """

    __slots__ = ("_counters", "_pool", "_release")

    def __init__(
        self,
        pool: WorkerPool,
        counters: BrokerCounters,
        release: Callable[[FetchResponse], None],
    ) -> None:
        self._pool = pool
        self._counters = counters
        self._release = release

    def delay(self, response: FetchResponse) -> "asyncio.Future[FetchResponse] | None":
        """The future of the same response if it has to wait for a disk, None if it has not.

        Cancelling the future gives the response up: its slices are let go of when the worker is
        done with them.
        """
        cold = [
            result.records
            for result in response.partitions
            if isinstance(result.records, FileSlice) and not is_resident(result.records)
        ]
        if not cold:
            return None
        self._counters.cold_fetches += 1
        answer: asyncio.Future[FetchResponse] = asyncio.get_running_loop().create_future()
        self._pool.run(partial(bring_in, cold)).add_done_callback(
            partial(self._deliver, answer, response)
        )
        return answer

    def _deliver(
        self,
        answer: "asyncio.Future[FetchResponse]",
        response: FetchResponse,
        reading: "asyncio.Future[None]",
    ) -> None:
        if reading.cancelled():
            answer.cancel()
        elif (error := reading.exception()) is not None:
            # Sending will meet the same fault and end the connection.
            logger.warning("event=read-ahead-failed error=%s", error)
        if answer.done():
            # Not before: the worker was reading through the descriptors until now.
            self._release(response)
        else:
            answer.set_result(response)

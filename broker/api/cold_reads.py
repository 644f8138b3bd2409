"""Fetches of data that has left the page cache: read in a worker before the answer is sent."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from seglog.broker.partition.counters import BrokerCounters
from seglog.broker.partition.deferred_reads import PoolOf
from seglog.broker.runtime.workers import WorkerPool
from seglog.broker.storage.files.log_file import FileSlice
from seglog.broker.storage.files.page_cache import bring_in, is_resident
from seglog.protocol.api import FetchResponse

logger = logging.getLogger(__name__)


class ColdReads:
    """Delays answers whose records are not in memory until a worker has read them.

    Args:
        pool_of: the threads that wait for the disk of a file, by its path.
        counters: of the broker; ``cold_fetches`` counts the delayed ones.
        release: releases the slices of an answer without a waiting client.
    """

    __slots__ = ("_counters", "_pool_of", "_release")

    def __init__(
        self,
        pool_of: PoolOf,
        counters: BrokerCounters,
        release: Callable[[FetchResponse], None],
    ) -> None:
        self._pool_of = pool_of
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
        by_pool: dict[WorkerPool, list[FileSlice]] = {}
        for each in cold:
            by_pool.setdefault(self._pool_of(each.file.path), []).append(each)
        reading = [pool.run(partial(bring_in, slices)) for pool, slices in by_pool.items()]
        all_read = asyncio.gather(*reading, return_exceptions=True)
        all_read.add_done_callback(partial(self._deliver, answer, response))
        return answer

    def _deliver(
        self,
        answer: "asyncio.Future[FetchResponse]",
        response: FetchResponse,
        all_read: "asyncio.Future[list[BaseException | None]]",
    ) -> None:
        errors = [error for error in all_read.result() if error is not None]
        if any(isinstance(error, asyncio.CancelledError) for error in errors):
            answer.cancel()
        for error in errors:
            # Sending will meet the same fault and end the connection.
            logger.warning("event=read-ahead-failed error=%s", error)
        if answer.done():
            # Not before: the worker was reading through the descriptors until now.
            self._release(response)
        else:
            answer.set_result(response)

"""What sending returns: the coming acknowledgement of one record, or of many.

The plain futures block a thread, like those of ``concurrent.futures``; the ``Async`` ones are
awaited. An unread one logs nothing: ``flush`` and ``close`` raise its error.
"""

import asyncio
import copy
from collections.abc import Callable, Generator
from typing import TypeVar

from seglog.clients.completion import WAITS_FOR_ITSELF, Completion, is_waiting_forbidden
from seglog.clients.errors import ClientError, ClientTimeoutError
from seglog.clients.models import RecordMetadata
from seglog.clients.producer.batch import ProducerBatch

_FutureT = TypeVar("_FutureT", bound="DeliveryFuture | BulkFuture")


class DeliveryFuture:
    """The coming acknowledgement of one record."""

    __slots__ = ("_batch", "_index", "_timestamp_ms")

    def __init__(self, batch: ProducerBatch, index: int, timestamp_ms: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms

    def done(self) -> bool:
        """Whether the record is acknowledged or given up."""
        return self._batch.is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait and return where the record is stored.

        Args:
            timeout: seconds; None waits until the delivery timeout decides.

        Raises:
            ClientTimeoutError: not decided within ``timeout``.
            ClientError: the record is not stored, or that is not known.
        """
        error = self.exception(timeout)
        if error is not None:
            raise copy.copy(error)  # Others raise it too; each has its own traceback.
        return self._batch.metadata_of(self._index, self._timestamp_ms)

    def exception(self, timeout: float | None = None) -> ClientError | None:
        """Wait and return why the record is not stored; None if it is.

        Raises:
            ClientTimeoutError: not decided within ``timeout``.
        """
        _wait(self._batch, timeout)
        error = self._batch.error_of(self._index)
        if error is not None:
            self._batch.mark_error_seen()
        return error

    def add_done_callback(self, callback: Callable[["DeliveryFuture"], object]) -> None:
        """Call ``callback(self)`` when decided, on the client's thread; it must not block.

        If it is decided already, the call happens here and now.
        """
        self._batch.add_callback(_user_callback(callback, self))


class AsyncDeliveryFuture(DeliveryFuture):
    """The coming acknowledgement of one record, to be awaited. ``result`` must not wait."""

    __slots__ = ()

    def exception(self, timeout: float | None = None) -> ClientError | None:
        """Why the record is not stored, None if it is; on a loop only once that is decided."""
        _check_awaited(self._batch)
        return super().exception(timeout)

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        if not self._batch.is_done:
            yield from self._batch.wait_async().__await__()
        return self.result(0)


class BulkDelivery(Completion):
    """Counts down the batches that hold records of one ``send_many``.

    ``add`` and ``complete`` are called by the thread that sends.
    """

    __slots__ = (
        "_delivered",
        "_error",
        "_failed",
        "_is_complete",
        "_newest",
        "_newest_ranges",
        "_pending",
        "_ranges",
    )

    def __init__(self) -> None:
        super().__init__()
        self._newest: ProducerBatch | None = None
        self._newest_ranges: list[list[int]] = []
        # Of each batch: the first index and the one behind the last of each run of our records.
        self._ranges: dict[ProducerBatch, list[list[int]]] = {}
        self._pending = 0
        self._is_complete = False
        self._delivered = 0
        self._error: ClientError | None = None
        self._failed: list[ProducerBatch] = []

    def add(self, batch: ProducerBatch, index: int) -> None:
        """The record of that index in ``batch``, which still takes records, is ours."""
        if batch is not self._newest:
            self._newest = batch
            self._newest_ranges = self._ranges_of(batch)
        ranges = self._newest_ranges
        if ranges and ranges[-1][1] == index:
            ranges[-1][1] = index + 1
        else:
            ranges.append([index, index + 1])

    def _ranges_of(self, batch: ProducerBatch) -> list[list[int]]:
        ranges = self._ranges.get(batch)
        if ranges is None:
            ranges = self._ranges[batch] = []
            with self._lock:
                self._pending += 1
            batch.add_callback(lambda: self._finish_batch(batch))
        return ranges

    def complete(self) -> None:
        """No more records will come."""
        with self._lock:
            self._is_complete = True
            is_done = not self._pending
        if is_done:
            self._finish()

    def _finish_batch(self, batch: ProducerBatch) -> None:
        indexes = [index for begin, end in self._ranges.pop(batch) for index in range(begin, end)]
        error = None
        delivered = len(indexes)
        if batch.error is not None:
            errors = [batch.error_of(index) for index in indexes]
            delivered = errors.count(None)
            error = next((each for each in errors if each is not None), None)
        with self._lock:
            self._pending -= 1
            self._delivered += delivered
            if error is not None:
                self._error = self._error or error
                self._failed.append(batch)
            is_done = self._is_complete and not self._pending
        if is_done:
            self._finish()

    @property
    def delivered_count(self) -> int:
        """How many records are acknowledged so far."""
        return self._delivered

    def take_error(self) -> ClientError | None:
        """The first error; the caller has taken notice of all."""
        for batch in self._failed:
            batch.mark_error_seen()
        return self._error


class BulkFuture:
    """The coming acknowledgements of all records of one ``send_many``."""

    __slots__ = ("_delivery",)

    def __init__(self, delivery: BulkDelivery) -> None:
        self._delivery = delivery

    def done(self) -> bool:
        """Whether every record is acknowledged or given up."""
        return self._delivery.is_done

    @property
    def delivered_count(self) -> int:
        """How many records are acknowledged so far."""
        return self._delivery.delivered_count

    def result(self, timeout: float | None = None) -> int:
        """Wait and return how many records were acknowledged: all of them.

        Raises:
            ClientTimeoutError: not decided within ``timeout`` seconds.
            ClientError: the first error; ``delivered_count`` tells how many are stored.
        """
        error = self.exception(timeout)
        if error is not None:
            raise copy.copy(error)
        return self._delivery.delivered_count

    def exception(self, timeout: float | None = None) -> ClientError | None:
        """Wait and return the first error, None if every record is stored."""
        _wait(self._delivery, timeout)
        return self._delivery.take_error()

    def add_done_callback(self, callback: Callable[["BulkFuture"], object]) -> None:
        """Call ``callback(self)`` when all is decided, on the client's thread; not to block."""
        self._delivery.add_callback(_user_callback(callback, self))


class AsyncBulkFuture(BulkFuture):
    """The coming acknowledgements of many records, to be awaited. ``result`` must not wait."""

    __slots__ = ()

    def exception(self, timeout: float | None = None) -> ClientError | None:
        """The first error, None if every record is stored; on a loop only once all is decided."""
        _check_awaited(self._delivery)
        return super().exception(timeout)

    def __await__(self) -> Generator[object, None, int]:
        if not self._delivery.is_done:
            yield from self._delivery.wait_async().__await__()
        return self.result(0)


def _check_awaited(completion: Completion) -> None:
    if completion.is_done:
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    # As a rule it is the loop that has to bring it about: it would wait for itself.
    raise ClientError("not decided yet: await the future, or look at done() before")


def _wait(completion: Completion, timeout: float | None) -> None:
    if not completion.is_done and is_waiting_forbidden():
        raise ClientError(WAITS_FOR_ITSELF)
    if not completion.wait(timeout):
        raise ClientTimeoutError(f"not acknowledged within {timeout} s; it may still be")


def _user_callback(callback: Callable[[_FutureT], object], future: _FutureT) -> Callable[[], None]:
    def run() -> None:
        # On the loop's thread a callback of the application runs by itself, so that what it
        # raises is reported by the loop and does not stop the client.
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            callback(future)
        else:
            loop.call_soon(_shielded(callback) if is_waiting_forbidden() else callback, future)

    return run


def _shielded(callback: Callable[[_FutureT], object]) -> Callable[[_FutureT], None]:
    def run(future: _FutureT) -> None:
        try:
            callback(future)
        except (SystemExit, KeyboardInterrupt) as error:
            # Let out, these end the loop of a blocking client, whose thread is not the program's:
            # the program does not exit, and unsent records wait for ever.
            message = "a callback wants the program to end: it cannot do that from here"
            asyncio.get_running_loop().call_exception_handler(
                {"message": message, "exception": error}
            )

    return run

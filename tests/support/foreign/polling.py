"""A consumer that a thread polls, for the clients whose calls block."""

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any

from support.foreign.shape import Read

CALL_SECONDS = 20.0


class PollingMember:
    """Runs ``poll`` in a thread; everything that touches the consumer is done there.

    Args:
        open_consumer: makes the consumer, in the thread.
        poll: waits a little for records and returns them.
        assignment: the partitions that it has now.
        commit: commits the positions.
        close: ends the consumer.
    """

    def __init__(
        self,
        open_consumer: Callable[["PollingMember"], Any],
        poll: Callable[[Any], Iterable[Read]],
        assignment: Callable[[Any], Iterable[int]],
        commit: Callable[[Any], None],
        close: Callable[[Any], None],
    ) -> None:
        self._open = open_consumer
        self._poll = poll
        self._assignment = assignment
        self._commit = commit
        self._close = close
        self._lock = threading.Lock()
        self._seen: list[Read] = []
        self._assigned: set[int] = set()
        self._joins = 0
        self._failure: Exception | None = None
        self._jobs: queue.SimpleQueue[tuple[Callable[[Any], Any], queue.SimpleQueue[Any]]] = (
            queue.SimpleQueue()
        )
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def count_join(self) -> None:
        """Note that something was assigned."""
        with self._lock:
            self._joins += 1

    def seen(self) -> list[Read]:
        """What was delivered so far."""
        self._check()
        with self._lock:
            return list(self._seen)

    def assigned(self) -> set[int]:
        """The partitions that it has now."""
        self._check()
        with self._lock:
            return set(self._assigned)

    def joins(self) -> int:
        """How many times it was assigned anything."""
        with self._lock:
            return self._joins

    def commit(self) -> None:
        """Commit what was delivered."""
        self.call(self._commit)

    def call(self, job: Callable[[Any], Any]) -> Any:
        """Do something with the consumer in its thread; its result or error."""
        self._check()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._jobs.put((job, answers))
        answer = answers.get(timeout=CALL_SECONDS)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Leave the group."""
        self._is_done.set()
        self._thread.join(CALL_SECONDS)
        assert not self._thread.is_alive(), "the consumer does not end"
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            consumer = self._open(self)
            try:
                while not self._is_done.is_set():
                    records = list(self._poll(consumer))
                    assigned = set(self._assignment(consumer))
                    with self._lock:
                        self._seen += records
                        self._assigned = assigned
                    self._work(consumer)
            finally:
                self._close(consumer)
        except Exception as error:  # noqa: BLE001 - shown to the test by whatever it asks next
            self._failure = error

    def _work(self, consumer: Any) -> None:
        while not self._jobs.empty():
            job, answers = self._jobs.get()
            try:
                answers.put(job(consumer))
            except Exception as error:  # noqa: BLE001 - raised where the job was ordered
                answers.put(error)

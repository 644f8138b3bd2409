"""What a blocking consumer does by hand: reading, with the listener in the reader's thread."""

from collections.abc import Iterator
from types import TracebackType

from seglog.clients.blocking.facade import EXIT_TIMEOUT_S, BlockingClient
from seglog.clients.consumer.consumer import READ_RECORDS, READ_TIMEOUT_S, AsyncConsumer
from seglog.clients.consumer.core import CLOSE_TIMEOUT_S
from seglog.clients.errors import ConfigurationError
from seglog.protocol.records.record import Record


class BlockingReader(BlockingClient[AsyncConsumer]):
    """Base of ``Consumer``; everything else there is made from ``AsyncConsumer``."""

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Disconnect and end the thread; idempotent.

        In a group, commit positions before (with ``auto_commit``) and leave.

        Args:
            timeout: seconds for that.
        """
        if not self._is_closed:
            self._end(self._twin.close(timeout))

    def close_at_exit(self) -> None:
        """Close, because the interpreter ends: what the last record was to do may be undone."""
        if not self._is_closed:
            self._end(self._twin.shut(EXIT_TIMEOUT_S, is_done=False))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._is_closed:
            self._end(self._twin.shut(CLOSE_TIMEOUT_S, is_done=kind is None))

    def __iter__(self) -> Iterator[Record]:
        """Yield record after record.

        Raises:
            OffsetOutOfRangeError: the position is not there and ``offset_reset`` is "error".
            NoCommittedOffsetError: the group has none, and ``offset_reset`` is "error".
            CorruptRecordError: fetched bytes are damaged.
            BrokerError: the broker refuses for a reason that does not pass.
        """
        twin = self._twin
        stream = twin.stream
        while True:
            self._check_open()
            stream.is_iterated = True
            # From a list, without a step to the other thread for each record.
            if twin.group is None:
                yield from stream.current
            else:
                for record in stream.current:
                    yield record
                    if stream.attention:
                        break
            if twin.poll():
                self._serve_group()
            elif not (stream.is_in_batch or stream.load() or self._call(twin.wait_for_data())):
                return

    def _serve_group(self) -> None:
        """As the twin's, but the listener is called in this thread."""
        from seglog.clients.group.steps import tell

        group = self._twin.group
        if group is None:
            return
        step = self._call(group.prepare_step())
        if step is None:
            return
        try:
            told = tell(self._twin.listener, step)
            if told is not None:
                raise ConfigurationError(
                    "the listener of a blocking consumer cannot be awaited: use plain methods"
                )
        finally:
            self._call(group.finish_step(step))

    def until_end(self) -> Iterator[Record]:
        """Yield the records up to the end as it is now; then the consumer can be read further."""
        self._call(self._twin.stop_at_present_end())
        try:
            yield from self
        finally:
            if not self._is_closed:
                self._call_on_loop(self._twin.forget_end)

    def read(
        self, max_records: int = READ_RECORDS, timeout: float | None = READ_TIMEOUT_S
    ) -> list[Record]:
        """Return the next records.

        Comes back as soon as there are ``max_records``, or some and the broker has no more just
        now, or the end is reached at which the consumer stops, or the time is up.

        Args:
            max_records: at most so many, and at least 1.
            timeout: seconds; None waits for at least one record.

        Returns:
            The records, none if the time is up or the end is reached.

        Raises:
            The same as iterating.
        """
        self._twin.stream.begin_turn()
        try:
            return self._read(max_records, timeout)
        except BaseException:
            # Ctrl-C may have met the records on their way here: the application has not got them.
            if not self._is_closed:
                self._call_on_loop(self._twin.take_back)
            raise

    def _read(self, max_records: int, timeout: float | None) -> list[Record]:
        twin = self._twin
        if twin.group is None:
            return self._call(twin.read(max_records, timeout))
        deadline_s = self._call_on_loop(lambda: twin.deadline_s(timeout))
        while True:
            if twin.poll():
                self._serve_group()
            else:
                records = self._call(twin.read_some(max_records, deadline_s))
                if records is not None:
                    return records

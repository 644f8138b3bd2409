"""A batch on its way to one partition, and what becomes of its records."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from seglog.clients.completion import Completion
from seglog.clients.errors import ClientError, InvalidRecordError
from seglog.clients.models import RecordMetadata
from seglog.clients.producer.records import RecordFields
from seglog.protocol.records.batch import HEADER_BYTES
from seglog.protocol.types import NO_OFFSET, NO_SEQUENCE, TopicPartition


class Outcome(NamedTuple):
    """What the broker made of a batch, or why it never took it."""

    base_offset: int = NO_OFFSET
    log_append_time_ms: int = -1
    error: ClientError | None = None


class ProducerBatch(Completion):
    """Records of one partition in the order of their offsets.

    Filled under the accumulator's lock by any thread, sent and finished on the loop's thread.
    A batch that is too large for the broker is finished by its ``parts``.

    Args:
        partition: where it goes.
        deadline_s: when it is given up; monotonic.
        ready_at_s: when it leaves even if it is not full; monotonic.
    """

    __slots__ = (
        "_first_of_part",
        "_outcome",
        "_pending_parts",
        "attempts",
        "base_sequence",
        "deadline_s",
        "encoded",
        "is_error_seen",
        "is_filling",
        "is_in_flight",
        "is_renumbered",
        "may_be_stored",
        "partition",
        "parts",
        "ready_at_s",
        "record_count",
        "records",
        "size_bytes",
    )

    def __init__(self, partition: TopicPartition, deadline_s: float, ready_at_s: float) -> None:
        super().__init__()
        self.partition = partition
        self.deadline_s = deadline_s
        self.ready_at_s = ready_at_s
        self.records: list[RecordFields] = []
        self.record_count = 0
        self.size_bytes = HEADER_BYTES
        self.encoded: bytes | bytearray | memoryview | None = None
        self.attempts = 0
        self.base_sequence = NO_SEQUENCE
        self.is_error_seen = False
        self.is_filling = True
        self.is_in_flight = False
        self.may_be_stored = False
        """Whether a request with it was sent that ended without the broker's word about it."""
        self.is_renumbered = False
        """Whether it was given numbers of another series since it was sent first."""
        self.parts: list[ProducerBatch] = []
        self._first_of_part: list[int] = []
        self._pending_parts = 0
        self._outcome = Outcome()

    def finish(self, outcome: Outcome) -> None:
        """Resolve the futures; the records are released."""
        if self._is_done:
            return
        self._outcome = outcome
        self.records = []
        self.encoded = None
        self._finish()

    def split_into(self, parts: Sequence["ProducerBatch"]) -> None:
        """Let ``parts``, which hold the same records in the same order, decide the outcome."""
        self.parts = list(parts)
        self._pending_parts = len(parts)
        first = 0
        for part in parts:
            self._first_of_part.append(first)
            first += part.record_count
        self.records = []
        self.encoded = None
        for part in parts:
            part.add_callback(self._finish_part)

    def _finish_part(self) -> None:
        self._pending_parts -= 1
        if not self._pending_parts:
            self._finish()

    @property
    def error(self) -> ClientError | None:
        """The error of its first records that have one."""
        if self.parts:
            return next((part.error for part in self.parts if part.error is not None), None)
        return self._outcome.error

    @property
    def failed_count(self) -> int:
        """How many of its records are known not to be acknowledged."""
        if self.parts:
            return sum(part.failed_count for part in self.parts)
        return self.record_count if self._outcome.error is not None else 0

    def mark_error_seen(self) -> None:
        """The application took notice of the error: ``flush`` and ``close`` need not raise it."""
        self.is_error_seen = True
        for part in self.parts:
            part.mark_error_seen()

    def error_of(self, index: int) -> ClientError | None:
        """What became of one record: its own error, or None if it is stored."""
        part = self._part_of(index)
        if part is not None:
            return part[0].error_of(part[1])
        error = self._outcome.error
        if isinstance(error, InvalidRecordError) and error.record_errors:
            return _error_of_record(error, index)
        return error

    def metadata_of(self, index: int, timestamp_ms: int) -> RecordMetadata:
        """Where the record of that index, which had that timestamp, is stored."""
        part = self._part_of(index)
        if part is not None:
            return part[0].metadata_of(part[1], timestamp_ms)
        base_offset, log_append_time_ms, _ = self._outcome
        offset = NO_OFFSET if base_offset == NO_OFFSET else base_offset + index
        if log_append_time_ms >= 0:
            timestamp_ms = log_append_time_ms
        return RecordMetadata(self.partition.topic, self.partition.partition, offset, timestamp_ms)

    def _part_of(self, index: int) -> tuple["ProducerBatch", int] | None:
        for first, part in zip(reversed(self._first_of_part), reversed(self.parts), strict=True):
            if index >= first:
                return part, index - first
        return None


def _error_of_record(error: InvalidRecordError, index: int) -> InvalidRecordError:
    messages: Mapping[int, str] = dict(error.record_errors)
    if index in messages:
        about = f"{error.message} (record {index} of its batch: {messages[index]})"
        return InvalidRecordError(about, error.code, record_errors=error.record_errors)
    return InvalidRecordError(
        f"not stored, because it was in a batch with records that were refused: {error.message}",
        error.code,
        record_errors=error.record_errors,
    )

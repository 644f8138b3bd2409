"""What becomes of batches that were sent: stored, sent again, divided, or given up. No I/O."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from seglog.clients.config import ProducerConfig
from seglog.clients.errors import (
    BrokerError,
    BrokerUnreachableError,
    ClientError,
    InvalidRecordError,
    broker_error,
)
from seglog.clients.producer.accumulator import RecordAccumulator
from seglog.clients.producer.batch import Outcome, ProducerBatch
from seglog.clients.producer.encoding import divide
from seglog.clients.producer.identity import SEQUENCE_ERRORS, ProducerIdentity, Verdict
from seglog.clients.producer.partition_queue import PartitionQueue
from seglog.clients.session.retrying import Backoff
from seglog.protocol.api import ProducePartitionResult
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import NO_OFFSET, TopicPartition
from seglog.protocol.wording import count_text, naming

if TYPE_CHECKING:
    # A program that sends outside of transactions must not pay for them.
    from seglog.clients.producer.transaction_progress import TransactionProgress

_FAILURES_KEPT: Final = 1000
_MARKER_BACKOFF_S: Final = 0.01
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_PERHAPS_STORED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class BatchOutcomes:
    """Decides about each batch of a request that has ended. Belongs to one thread.

    Args:
        config: of the producer.
        accumulator: where the batches are.
        identity: numbers the batches of an idempotent producer.
        warn: told of trouble that goes on by itself, as a logger's ``warning`` is.
        progress: of the transactions in which batches are sent, if they are.
    """

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: RecordAccumulator,
        identity: ProducerIdentity,
        warn: Callable[..., object],
        progress: "TransactionProgress | None" = None,
    ) -> None:
        self._accumulator = accumulator
        self._identity = identity
        self._warn = warn
        self._progress = progress
        first_s, max_s = config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000
        self._backoff = Backoff(first_s, max_s)
        # For the end of the transaction before: its markers take a sync or two, not a fail-over.
        self._marker_backoff = Backoff(min(_MARKER_BACKOFF_S, first_s), max_s)
        self.last_errors: dict[TopicPartition, ClientError] = {}
        """What keeps the batches of partitions from being stored."""
        self.failed_batches: list[ProducerBatch] = []
        """Newest batches that were given up, whose errors were perhaps not read."""
        self.doubts_metadata = False
        """Whether an error says that another broker may lead a partition now."""

    def give_up(self, batch: ProducerBatch, error: ClientError) -> None:
        """Fail the records of a batch."""
        self._identity.given_up(batch)
        if self._progress is not None:
            error = self._progress.refused(error)
        self._accumulator.finish(batch, Outcome(error=error))
        self.failed_batches.append(batch)
        if len(self.failed_batches) > _FAILURES_KEPT:
            self.failed_batches = [each for each in self.failed_batches if not each.is_error_seen]
            del self.failed_batches[: -_FAILURES_KEPT // 2]
        self._warn("producer: %s", naming(batch.partition, error))

    def take_result(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        result: ProducePartitionResult | None,
        now_s: float,
    ) -> float:
        """Decide about a batch that a broker answered for; returns when its partition may go on."""
        if result is None:
            error = broker_error(
                ErrorCode.UNKNOWN_SERVER_ERROR, "no answer for the partition", str(batch.partition)
            )
            return self.take_error(queue, batch, error, now_s)
        base_offset = result.base_offset
        if result.error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            base_offset = NO_OFFSET  # It is stored, only where is not known any more.
        elif result.error is not ErrorCode.NONE:
            return self.take_error(queue, batch, _error_of(result), now_s)
        self.last_errors.pop(batch.partition, None)
        self._identity.stored(batch, base_offset)
        self._accumulator.finish(batch, Outcome(base_offset, result.log_append_time_ms))
        return 0.0

    def take_error(
        self, queue: PartitionQueue, batch: ProducerBatch, error: ClientError, now_s: float
    ) -> float:
        """Decide about a batch that was not stored; returns when its partition may go on."""
        if batch.is_done:
            return 0.0
        if isinstance(error, BrokerError):
            if error.code in _TOO_LARGE and batch.record_count > 1:
                self._accumulator.replace(batch, divide(batch))
                return 0.0
            if error.code in SEQUENCE_ERRORS and self._identity.is_idempotent:
                return self._take_sequence_error(queue, batch, error)
            self.doubts_metadata |= error.code.refreshes_metadata
            batch.may_be_stored |= error.code in _PERHAPS_STORED
        elif isinstance(error, BrokerUnreachableError):
            # It may have come back elsewhere, or another broker leads now.
            self.doubts_metadata = True
        else:
            batch.may_be_stored = True
        if not error.retriable:
            self.give_up(batch, error)
            return 0.0
        self.last_errors[batch.partition] = error
        batch.attempts += 1
        if isinstance(error, BrokerError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
            # To wait for the end of the transaction before is part of the protocol.
            return now_s + self._marker_backoff.delay_s(batch.attempts)
        self._warn("producer: %s; trying again", naming(batch.partition, error))
        return now_s + self._backoff.delay_s(batch.attempts)

    def _take_sequence_error(
        self, queue: PartitionQueue, batch: ProducerBatch, error: BrokerError
    ) -> float:
        verdict = self._identity.judge(batch, error.code, is_first=queue.batches[0] is batch)
        if verdict is not Verdict.FAIL:
            return 0.0
        last_offset = self._identity.series_of(batch.partition).last_offset
        message = f"{error.message}; not stored: {count_text(batch.record_count, 'record')}"
        if batch.may_be_stored:
            message += ", or perhaps they are: a request with them was not answered"
        if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            message += f"; the broker has not all that it acknowledged, up to offset {last_offset}"
        self.give_up(batch, type(error)(message, error.code))
        return 0.0


def _error_of(result: ProducePartitionResult) -> BrokerError:
    about = f"{result.topic}-{result.partition}"
    error = broker_error(result.error, result.error_message, about)
    if isinstance(error, InvalidRecordError):
        error.record_errors = tuple(result.record_errors)
    return error

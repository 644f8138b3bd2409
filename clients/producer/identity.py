"""The producer's id, and the numbers of its batches in each partition. No I/O.

Batches of a partition form a series: numbered without a gap, under one producer id and epoch. The
broker takes the next number only, and recognizes the last five batches when they come again. A
batch whose number it refuses is not stored, and neither is any behind it. So where a number is
missing because we gave its records up, those behind it can be numbered anew, under the next epoch,
without any risk; where the broker misses what it had acknowledged, it has lost records.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from seglog.clients.producer.batch import ProducerBatch
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import (
    INT32_MAX,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TopicPartition,
)

LAST_EPOCH: Final = 2**15 - 1
SEQUENCE_ERRORS: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
    }
)
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


class Verdict(Enum):
    """What to do about a batch whose number the broker refused."""

    WAIT = "send it again behind those before it"
    RENEW = "number it and what follows anew, and send it again"
    FAIL = "tell the application"


class BatchNumbers(NamedTuple):
    """What a broker recognizes a batch by; the sequence is that of its first record."""

    producer_id: int
    epoch: int
    base_sequence: int


@dataclass(slots=True)
class Series:
    """The numbering of one partition.

    Attributes:
        producer_id: under which its batches are sent.
        epoch: counts the series of a partition.
        next_sequence: of the next record.
        has_gap: records were given up after they had been numbered, and perhaps not stored.
        must_renew: the next batch begins a new series.
        last_offset: of the newest acknowledged record, -1 before the first.
    """

    producer_id: int
    epoch: int
    next_sequence: int = 0
    has_gap: bool = False
    must_renew: bool = False
    last_offset: int = NO_OFFSET


class ProducerIdentity:
    """Numbers the batches of an idempotent producer; does nothing for others.

    Args:
        is_idempotent: whether batches are numbered.
        is_transactional: whether they are sent in transactions: then nothing is numbered anew, and
            the series of all partitions begin together.
    """

    def __init__(self, *, is_idempotent: bool = False, is_transactional: bool = False) -> None:
        self.is_idempotent = is_idempotent
        self.is_transactional = is_transactional
        self.producer_id = NO_PRODUCER_ID
        self.epoch = NO_PRODUCER_EPOCH
        self._series: dict[TopicPartition, Series] = {}

    @property
    def is_known(self) -> bool:
        """Whether batches can be numbered, or need not be."""
        return not self.is_idempotent or self.producer_id != NO_PRODUCER_ID

    def assume(self, producer_id: int, epoch: int) -> None:
        """Use an id that the broker gave; series that were begun go on under theirs."""
        self.producer_id = producer_id
        self.epoch = epoch

    def restart(self, producer_id: int, epoch: int) -> None:
        """Use an id and epoch that the broker gave for new series of all partitions."""
        self.assume(producer_id, epoch)
        self._series.clear()

    def forget(self) -> None:
        """Use the present id for no new series: another is needed."""
        self.producer_id = NO_PRODUCER_ID
        self.epoch = NO_PRODUCER_EPOCH

    def series_of(self, partition: TopicPartition) -> Series:
        """The present series of a partition."""
        series = self._series.get(partition)
        if series is None:
            series = self._series[partition] = Series(self.producer_id, self.epoch)
        return series

    def number(self, batch: ProducerBatch) -> bool:
        """Give a batch that leaves for the first time its numbers; False if it has them already."""
        if not self.is_idempotent or batch.base_sequence != NO_SEQUENCE:
            return False
        batch.base_sequence = self.take(batch.partition, batch.record_count).base_sequence
        return True

    def take(self, partition: TopicPartition, record_count: int) -> BatchNumbers:
        """The numbers of the next batch of a partition; batches must leave in this order."""
        series = self.series_of(partition)
        first = series.next_sequence
        series.next_sequence = (first + record_count) & INT32_MAX
        return BatchNumbers(series.producer_id, series.epoch, first)

    def take_back(self, batch: ProducerBatch) -> None:
        """The newest numbered batch will not be sent: the next one gets its numbers."""
        self.series_of(batch.partition).next_sequence = batch.base_sequence
        batch.base_sequence = NO_SEQUENCE

    def stored(self, batch: ProducerBatch, base_offset: int) -> None:
        """The broker has a batch, so it misses nothing that came before."""
        if batch.base_sequence != NO_SEQUENCE:
            series = self.series_of(batch.partition)
            series.has_gap = False
            if base_offset != NO_OFFSET:
                series.last_offset = base_offset + batch.record_count - 1

    def given_up(self, batch: ProducerBatch) -> None:
        """A batch will not be sent again, and perhaps the broker has never got it."""
        if batch.base_sequence != NO_SEQUENCE:
            self.series_of(batch.partition).has_gap = True

    def must_renew(self, partition: TopicPartition) -> bool:
        """Whether the next batch of a partition begins a new series."""
        return self.is_idempotent and self.series_of(partition).must_renew

    def judge(self, batch: ProducerBatch, code: ErrorCode, *, is_first: bool) -> Verdict:
        """Decide about a batch that was refused with one of ``SEQUENCE_ERRORS``.

        Whatever is not ``WAIT`` is noted in the series, which is then to be renewed.

        Args:
            batch: the one in question.
            code: the broker's answer.
            is_first: whether all batches before it are decided.
        """
        if not is_first:
            return Verdict.WAIT
        if self.is_transactional:
            return Verdict.FAIL
        series = self.series_of(batch.partition)
        series.must_renew = True
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return Verdict.RENEW if series.has_gap else Verdict.FAIL
        if code in _FENCED and self.producer_id == series.producer_id:
            self.forget()
        # A broker that has forgotten us cannot recognize what it has stored.
        is_hopeless = batch.may_be_stored or batch.is_renumbered
        return Verdict.FAIL if is_hopeless else Verdict.RENEW

    def renew(self, partition: TopicPartition) -> Series | None:
        """Begin the next series of a partition; None if another producer id is needed first."""
        old = self.series_of(partition)
        if old.producer_id == self.producer_id and old.epoch >= LAST_EPOCH:
            self.forget()
        if not self.is_known:
            return None
        is_same_id = old.producer_id == self.producer_id
        epoch = old.epoch + 1 if is_same_id else self.epoch
        series = Series(self.producer_id, epoch, last_offset=old.last_offset)
        self._series[partition] = series
        return series

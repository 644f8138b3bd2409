"""The state of one producer in a log: epoch, last batches, open transaction."""

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from seglog.protocol.types import (
    INT32_MAX,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)

RETAINED_BATCHES: Final = 5
NO_COORDINATOR_EPOCH: Final = -1


def next_sequence(sequence: int) -> int:
    """The sequence number after ``sequence``; after 2^31-1 comes 0."""
    return 0 if sequence == INT32_MAX else sequence + 1


class RetainedBatch(NamedTuple):
    """A batch that can still be recognised when it is sent again."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record; wraps below 0 to 2^31-1."""
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 else first + INT32_MAX + 1

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


class LastProducerRecord(NamedTuple):
    """The newest trace of a producer: its last data offset, -1 if only a marker is left."""

    last_data_offset: int
    producer_epoch: int


@dataclass(slots=True)
class ProducerEntry:
    """State of one producer id in one log.

    ``last_timestamp_ms`` is the record time of its last batch or marker, as the snapshot file has
    it; ``seen_ms`` is the broker's clock at that moment, which decides when the entry expires.
    ``batches`` are the last ones, the newest at the end; a list, as there may be a hundred thousand
    producers that have sent one, and a deque has room for sixty. ``view`` is the number of the last
    view of all producers (`ProducerState.freeze`) that it is no part of.
    """

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp_ms: int = NO_TIMESTAMP
    seen_ms: int = NO_TIMESTAMP
    open_transaction_offset: int | None = None
    batches: list[RetainedBatch] = field(default_factory=list)
    view: int = field(default=0, compare=False, repr=False)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 if no data batch is retained."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        """Offset of the last data record, -1 if no data batch is retained."""
        return self.batches[-1].last_offset if self.batches else -1

    def copy_for(self, view: int) -> "ProducerEntry":
        """One that may be changed while this one stays as it is."""
        return replace(self, batches=[*self.batches], view=view)

    def remember(self, batch: RetainedBatch) -> None:
        """Add a batch; the oldest goes if they are too many."""
        self.batches.append(batch)
        if len(self.batches) > RETAINED_BATCHES:
            del self.batches[0]

    def find_duplicate(
        self, epoch: int, first_sequence: int, last_sequence: int
    ) -> RetainedBatch | None:
        """The retained batch with exactly this range of sequences, None if there is none."""
        if epoch != self.epoch:
            return None
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None

    def set_epoch(self, epoch: int) -> None:
        """Take over the epoch of a batch or marker; another epoch makes older batches history."""
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch

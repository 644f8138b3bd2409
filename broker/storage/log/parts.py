"""The parts of a log, shared by the classes that work on them, owned by the log."""

from dataclasses import dataclass

from seglog.broker.storage.log.leader_epochs import LeaderEpochCache
from seglog.broker.storage.log.offsets import LogOffsets
from seglog.broker.storage.log.producer_snapshot_files import ProducerSnapshotFiles
from seglog.broker.storage.log.producer_state import ProducerState
from seglog.broker.storage.log.segments import LogSegments
from seglog.broker.storage.ownership import IS_CHECKED


@dataclass(slots=True)
class LogParts:
    """The state of one log, as the loader has read it from the log's folder."""

    segments: LogSegments
    offsets: LogOffsets
    leader_epochs: LeaderEpochCache
    producers: ProducerState
    snapshots: ProducerSnapshotFiles

    def hand_over(self) -> None:
        """Let the thread own all of it that changes it next."""
        if not IS_CHECKED:
            return
        for part in (self.offsets, self.segments, self.leader_epochs, self.producers):
            part.hand_over()
        for segment in self.segments:
            segment.files.hand_over()

    def update_first_unstable(self) -> None:
        """Bring the last stable offset in line with transactions and high watermark (TXN-8)."""
        transactions, offsets = self.producers.transactions, self.offsets
        if transactions:
            transactions.acknowledge(offsets.high_watermark)
            offsets.set_first_unstable(transactions.first_unstable_offset())
        elif offsets.first_unstable is not None:
            offsets.set_first_unstable(None)

"""Reading a partition of an internal topic back, piece by piece in a worker.

What the records mean is for a subclass of ``TopicReplay`` to say; its owner takes the result over
when all was read. What cannot be understood is left out with a line in the log, so that one damaged
record costs what it said and not a start.
"""

import logging
from abc import ABC, abstractmethod
from functools import partial
from typing import Final

from seglog.broker.partition.deferred_reads import DeferredReads
from seglog.broker.partition.partition import Partition
from seglog.broker.runtime.workers import WorkerPool
from seglog.broker.storage.errors import DamagedRecordsError, DeferredReadError, StorageError
from seglog.broker.storage.files.file_system import FileSlice
from seglog.broker.storage.log.log import FetchIsolation, Log
from seglog.protocol.errors import ProtocolError, RecordError
from seglog.protocol.records.batch import RecordBatch, iter_batches

logger = logging.getLogger(__name__)

_LOGGED_FAULTS_MAX: Final = 20


class TopicReplay(ABC):
    """Takes the batches of one partition in.

    Args:
        name: of the partition, for messages.

    Attributes:
        faults: how many batches and records could not be read.
    """

    def __init__(self, name: str) -> None:
        self.faults = 0
        self._name = name

    @abstractmethod
    def take_marker(self, batch: RecordBatch) -> None:
        """Take a control batch in; raises ``RecordError`` if it cannot be read."""

    @abstractmethod
    def take_record(self, batch: RecordBatch, offset: int, key: bytes, value: bytes | None) -> None:
        """Take a record in; raises ``ProtocolError`` if it cannot be understood."""

    def feed(self, data: bytes) -> int | None:
        """Take in the next bytes, which begin with a batch.

        Returns:
            The offset behind the last whole batch; None if none can be found because the bytes are
            damaged.
        """
        next_offset = None
        try:
            for batch in iter_batches(data):
                self._take_batch(batch)
                next_offset = batch.header.next_offset
        except RecordError as error:
            self.fault("batch", -1 if next_offset is None else next_offset, error)
            return None
        return next_offset

    def _take_batch(self, batch: RecordBatch) -> None:
        header = batch.header
        try:
            batch.check()
            if header.is_control:
                self.take_marker(batch)
                return
            records = batch.records()
        except RecordError as error:
            self.fault("batch", header.base_offset, error)
            return
        for record in records:
            if record.key is None:
                self.fault("record", record.offset, "it has no key")
                continue
            try:
                self.take_record(batch, record.offset, record.key, record.value)
            except ProtocolError as error:
                self.fault("record", record.offset, error)

    def fault(self, what: str, offset: int, reason: object) -> None:
        """Count something that could not be read, and say so."""
        self.faults += 1
        if self.faults <= _LOGGED_FAULTS_MAX:
            logger.warning(
                "event=internal-record-damaged partition=%s part=%s offset=%d reason=%s "
                "action=left-out",
                self._name,
                what,
                offset,
                reason,
            )


async def read_partition(
    partition: Partition, pool: WorkerPool, buffer_bytes: int, replay: TopicReplay
) -> None:
    """Read a whole partition, with records appended meanwhile, such as a marker.

    Raises:
        StorageError: the disk refused.
    """
    log = partition.log
    offset = log.offsets.log_start
    while offset < log.offsets.log_end:
        next_offset = await _read_piece(log, offset, pool, buffer_bytes, replay)
        if next_offset is None:
            # What lies behind the damage cannot be found in this segment; the next one can.
            segment = log.segments.floor(offset)
            following = None if segment is None else log.segments.higher(segment.base_offset)
            if following is None:
                break
            next_offset = following.base_offset
        offset = max(next_offset, offset + 1)


async def _read_piece(
    log: Log, offset: int, pool: WorkerPool, buffer_bytes: int, replay: TopicReplay
) -> int | None:
    """Take in some batches from an offset on; the offset behind them, None if that is unknown."""
    read = partial(log.read, offset, buffer_bytes, isolation=FetchIsolation.LOG_END)
    try:
        try:
            data = read()
        except DeferredReadError as deferred:
            data = await DeferredReads(lambda _path: pool).read(deferred, read)
    except StorageError as error:
        if error.takes_dir_offline:
            raise
        replay.fault("batch", offset, error)
        return error.next_offset if isinstance(error, DamagedRecordsError) else None
    if data.slice is None:
        # The last batches of the log were compacted away.
        return log.offsets.log_end
    return await pool.run(partial(_feed, replay, data.slice))


def _feed(replay: TopicReplay, piece: FileSlice) -> int | None:
    try:
        return replay.feed(piece.read())
    finally:
        piece.release()

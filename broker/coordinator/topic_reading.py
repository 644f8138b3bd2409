"""Reading a partition of an internal topic back, piece by piece in a worker.

What takes the batches is the coordinator's. Damage is left out: it costs what it hit and not a
start.
"""

from functools import partial
from typing import Protocol

from seglog.broker.partition.partition import Partition
from seglog.broker.runtime.workers import WorkerPool
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files import FileSlice
from seglog.broker.storage.log import FetchIsolation, Log


class BatchReader(Protocol):
    """What the bytes of a partition are fed to."""

    def feed(self, data: bytes) -> int | None:
        """Take in the next bytes, which begin with a batch.

        Returns:
            The offset behind the last whole batch; None if none can be found because the bytes are
            damaged.
        """
        ...

    def fault(self, what: str, offset: int, reason: object) -> None:
        """Count something that could not be read, and say so."""
        ...


async def read_partition(
    partition: Partition, pool: WorkerPool, buffer_bytes: int, reader: BatchReader
) -> None:
    """Read a whole partition.

    Raises:
        StorageError: the disk refused.
    """
    log = partition.log
    offset = log.offsets.log_start
    while offset < log.offsets.log_end:
        next_offset = await _read_piece(log, offset, pool, buffer_bytes, reader)
        if next_offset is None:
            # What lies behind the damage cannot be found in this segment; the next one can.
            segment = log.segments.floor(offset)
            following = None if segment is None else log.segments.higher(segment.base_offset)
            if following is None:
                break
            next_offset = following.base_offset
        offset = max(next_offset, offset + 1)


async def _read_piece(
    log: Log, offset: int, pool: WorkerPool, buffer_bytes: int, reader: BatchReader
) -> int | None:
    """Take in some batches from an offset on; the offset behind them, None if that is unknown."""
    try:
        data = log.read(offset, buffer_bytes, isolation=FetchIsolation.LOG_END)
    except StorageError as error:
        if error.takes_dir_offline:
            raise
        reader.fault("batch", offset, error)
        return None
    if data.slice is None:
        # The last batches of the log were compacted away.
        return log.offsets.log_end
    return await pool.run(partial(_feed, reader, data.slice))


def _feed(reader: BatchReader, piece: FileSlice) -> int | None:
    try:
        return reader.feed(piece.read())
    finally:
        piece.release()

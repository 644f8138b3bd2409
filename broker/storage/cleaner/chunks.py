"""Reading a sealed data file in chunks that begin and end with whole batches."""

from collections.abc import Callable

from seglog.broker.storage.errors import CorruptLogError
from seglog.broker.storage.files.log_file import LogFile
from seglog.protocol.records.batch import HEADER_BYTES, read_header

Account = Callable[[int], None]
"""Told of every chunk by its bytes; may wait (throttle) or raise to end the pass."""


class ChunkReader:
    """One buffer that reads a file from a batch boundary on; grows for a batch beyond its size.

    Args:
        buffer_bytes: the size to begin with.
        account: told of every chunk that was read.
    """

    def __init__(self, buffer_bytes: int, account: Account) -> None:
        self._buffer = bytearray(max(buffer_bytes, HEADER_BYTES))
        self.account = account

    def read(self, log: LogFile, position: int, end: int) -> memoryview:
        """The bytes from ``position`` on, as many as the buffer takes, up to ``end``."""
        view = memoryview(self._buffer)[: min(len(self._buffer), end - position)]
        count = log.read_into(position, view)
        if count < len(view):
            raise CorruptLogError(log.path, position + count, f"the file ends before byte {end}")
        self.account(count)
        return view

    def grow_for(self, log: LogFile, position: int, view: memoryview, end: int) -> None:
        """Make room for the batch at ``position``; ``view`` holds its beginning (SEG-5).

        Raises:
            CorruptLogError: no batch that could end before ``end`` starts there.
        """
        if len(view) < HEADER_BYTES:
            raise CorruptLogError(log.path, position, f"{len(view)} bytes are no batch header")
        size_bytes = read_header(view).size_bytes
        if size_bytes < HEADER_BYTES or position + size_bytes > end:
            raise CorruptLogError(
                log.path,
                position,
                f"a batch of {size_bytes} bytes does not fit into the {end - position} that follow",
            )
        if size_bytes > len(self._buffer):
            self._buffer = bytearray(size_bytes)

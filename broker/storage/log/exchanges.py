"""The exchange of segments of one log under way, and the operations that must wait for it."""

from collections.abc import Sequence

from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.log.exchange import Exchange, ExchangeUnderWayError
from seglog.broker.storage.log.flush import LogFlusher
from seglog.broker.storage.log.parts import LogParts
from seglog.broker.storage.log.reader import LogReader
from seglog.broker.storage.segment.segment import LogSegment


class LogExchanges:
    """The owner's side of exchanges; a part of `Log`. There is one at a time."""

    def __init__(
        self,
        file_system: FileSystem,
        log_name: str,
        parts: LogParts,
        flusher: LogFlusher,
        reader: LogReader,
    ) -> None:
        self._file_system = file_system
        self._log_name = log_name
        self._parts = parts
        self._flusher = flusher
        self._reader = reader
        self._current: Exchange | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether one has been begun and not ended."""
        return self._current is not None

    def check_at_rest(self) -> None:
        """Make sure that segments may be taken away or cut.

        Raises:
            ExchangeUnderWayError: some are being exchanged.
        """
        if self._current is not None:
            raise ExchangeUnderWayError(self._log_name)

    def begin(
        self, directory: str, new: Sequence[LogSegment], old: Sequence[LogSegment]
    ) -> Exchange | None:
        """Begin to put compacted segments in the place of their sources, crash-safe (SEG-6).

        Until ``end`` the log is not cut, and none of its segments is deleted.

        Args:
            new: closed for writing, with the suffix ``.cleaned``, their content on disk; their
                base offsets lie within the range of ``old``.
            old: sealed segments; those that retention has deleted meanwhile are left out (SEG-7).

        Returns:
            None if no source is left: the new segments are deleted.

        Raises:
            ExchangeUnderWayError: there is another one.
        """
        self.check_at_rest()
        segments = self._parts.segments
        present = [each for each in old if segments.get(each.base_offset) is each]
        if not present:
            for segment in new:
                segment.delete_files()
            return None

        def put_in() -> None:
            for segment in present:
                self._flusher.segment_removed(segment)
                if segment.base_offset not in segments:
                    self._parts.snapshots.remove(segment.base_offset)
            self._reader.forget()

        self._current = Exchange(self._file_system, directory, segments, new, present, put_in)
        return self._current

    def end(self, exchange: Exchange) -> None:
        """Go on after the last step of an exchange, or after one that has left nothing."""
        assert exchange is self._current, exchange
        self._current = None

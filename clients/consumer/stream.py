"""Turns fetched chunks into records, one batch at a time, for the reader.

The reader's side of a consumer: used by one thread at a time, which with the blocking facade is
the application's. Only ``put`` is called from the loop's thread; a deque lets both work at once.
Records are decoded when they are wanted, as a list for each batch; iterating is then as fast as
iterating a list, and a position is derived from how far the list's iterator has come.
"""

import itertools
import operator
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from seglog.clients.consumer.aborted import AbortedFilter
from seglog.clients.consumer.state import Chunk, PartitionState
from seglog.clients.errors import ClientError, CorruptRecordError
from seglog.protocol.compression import DecompressedTooLargeError
from seglog.protocol.errors import RecordError
from seglog.protocol.limits import MAX_DECOMPRESSED_BYTES
from seglog.protocol.records.batch import RecordBatch, iter_batches, read_header
from seglog.protocol.records.record import Record
from seglog.protocol.records.resync import find_sound_batch

_OFFSET: Final = operator.attrgetter("offset")


class RecordStream:
    """The records at hand.

    Args:
        check_crcs: whether to verify checksums.
        max_decompressed_bytes: what the records of one batch may inflate to.
        on_consumed: called with each chunk that has been read or thrown away.
        on_broken: called with a chunk that cannot be read beyond its partition's position.
    """

    def __init__(
        self,
        *,
        check_crcs: bool,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
        on_consumed: Callable[[Chunk], object],
        on_broken: Callable[[Chunk], object],
    ) -> None:
        self._check_crcs = check_crcs
        self._max_decompressed_bytes = max_decompressed_bytes
        self._on_consumed = on_consumed
        self._on_broken = on_broken
        self._chunks: deque[Chunk] = deque()
        self._chunk: Chunk | None = None
        self._batches: Iterator[RecordBatch] = iter(())
        self._walked_bytes = 0
        self._aborted: AbortedFilter | None = None
        self._records: list[Record] = []
        self._next_offset = 0
        self._deferred_error: Exception | None = None
        self._unsettled: set[PartitionState] = set()
        # Of each partition: generation and offset of the first record that ``take`` took since
        # ``begin_turn``.
        self._taken: dict[PartitionState, tuple[int, int]] = {}
        self._loading = threading.Lock()
        self._loads = 0
        self.is_iterated = False
        """Whether records are given out one by one, not many at a time."""
        self.attention = False
        """Whether the reader shall look up from its present batch: the loop needs it."""
        self.current: Iterator[Record] = iter(self._records)
        """The records of the current batch that are left; ``load`` puts the next in its place."""

    @property
    def has_chunks(self) -> bool:
        """Whether there is something to load from, or an error to raise."""
        return bool(self._chunks) or self._chunk is not None or self._deferred_error is not None

    @property
    def has_error(self) -> bool:
        """Whether the next call of ``load`` or ``take`` raises what an earlier one held back."""
        return self._deferred_error is not None

    @property
    def is_in_batch(self) -> bool:
        """Whether the current batch has records left, which ``load`` would pass over."""
        return operator.length_hint(self.current) > 0

    @property
    def progress(self) -> tuple[int, int]:
        """Differs from what it was before if records were taken; any thread may ask."""
        return self._loads, operator.length_hint(self.current)

    def settle(self) -> None:
        """The application has done with all that it was given."""
        unsettled = self._unsettled
        if not unsettled:
            return
        for state in unsettled:
            state.settled = self.position(state)
        unsettled.clear()
        if self._chunk is not None:
            unsettled.add(self._chunk.state)

    def settle_all_but_last(self) -> None:
        """The application has done with all records but the last one, where they came singly."""
        chunk = self._chunk
        if not self.is_iterated or chunk is None or chunk.is_void:
            return
        used = len(self._records) - operator.length_hint(self.current)
        if used > 0:
            chunk.state.settled = self._records[used - 1].offset

    def put(self, chunk: Chunk) -> None:
        """Add a chunk behind the others."""
        self._chunks.append(chunk)

    def load(self) -> bool:
        """Make the next batch current, when the current one is used up; False if there is none.

        Raises:
            ClientError: what fetching met; reading on goes on behind it or meets it again. Or
                another thread is in here: each would pass over what the other has just loaded.
        """
        if not self._loading.acquire(blocking=False):
            raise ClientError("another thread reads this consumer: one at a time, please")
        try:
            return self.is_in_batch or self._load()
        finally:
            self._loading.release()

    def _load(self) -> bool:
        if self._deferred_error is not None:
            error, self._deferred_error = self._deferred_error, None
            raise error
        while True:
            self._settle()
            chunk = self._chunk
            if chunk is not None and not chunk.is_void:
                if self._load_batch(chunk):
                    return True
                continue
            self._end_chunk()
            if not self._chunks:
                return False
            self._begin_chunk(self._chunks.popleft())

    def begin_turn(self) -> None:
        """The records taken before have reached the application."""
        self._taken.clear()

    def take_back(self) -> list[tuple[PartitionState, int]]:
        """The records taken since ``begin_turn`` have not reached the application.

        Returns:
            Where to go on in each partition of which something was taken, unless it has moved.
        """
        taken, self._taken = self._taken, {}
        if taken:
            self._deferred_error = None  # It lies behind the taken records, and is met again there.
        return [
            (state, offset)
            for state, (generation, offset) in taken.items()
            if state.generation == generation
        ]

    def take(self, records: list[Record], max_records: int) -> None:
        """Add records at hand to ``records``, until it holds ``max_records``.

        Raises:
            ClientError: what fetching met, if ``records`` is empty; else the next call raises it,
                and whatever else decoding raises.
        """
        while len(records) < max_records:
            taken = list(itertools.islice(self.current, max_records - len(records)))
            if taken:
                records += taken
                assert self._chunk is not None
                place = (self._chunk.generation, taken[0].offset)
                self._taken.setdefault(self._chunk.state, place)
                continue
            try:
                if not self.load():
                    return
            except Exception as error:
                # Raised now, it would lose the records already taken from the stream.
                if not records:
                    raise
                self._deferred_error = error
                return

    def position(self, state: PartitionState) -> int:
        """The offset of the next record of a partition for the application."""
        chunk = self._chunk
        if chunk is None or chunk.state is not state or chunk.is_void or not self._records:
            return state.position
        left = operator.length_hint(self.current)
        if not left:
            return self._next_offset
        used = len(self._records) - left
        return self._records[used - 1].offset + 1 if used else state.position

    def discard(self, state: PartitionState) -> None:
        """The partition has moved: stop an iteration of it that is under way."""
        if self._chunk is not None and self._chunk.state is state:
            # In place: a loop of the application may hold the iterator of this very list.
            self._records.clear()

    def _settle(self) -> None:
        """The current batch is used up: its end is the position now."""
        if self._records and self._chunk is not None and not self._chunk.is_void:
            self._chunk.state.position = self._next_offset
        self._records = []

    def _begin_chunk(self, chunk: Chunk) -> None:
        self._chunk = chunk
        if chunk.is_void:
            return
        if chunk.error is not None:
            self._end_chunk()
            raise chunk.error
        self._batches = iter_batches(chunk.records)
        self._walked_bytes = 0
        self._aborted = None if chunk.aborted is None else AbortedFilter(chunk.aborted)

    def _end_chunk(self) -> None:
        if self._chunk is not None:
            chunk, self._chunk = self._chunk, None
            self._batches = iter(())
            self._on_consumed(chunk)

    def _load_batch(self, chunk: Chunk) -> bool:
        state = chunk.state
        stop_offset = state.stop_offset
        if stop_offset is not None and state.position >= stop_offset:
            self._end_chunk()
            return False
        try:
            batch = next(self._batches, None)
            if batch is None:
                self._end_chunk()
                return False
            records = self._decode(batch, state)
        except RecordError as error:
            fault = self._fault_in(chunk, error)
            self._break_off(chunk)
            raise fault from error
        except BaseException:
            # A defect, a missing codec, Ctrl-C: the application has not got the batch.
            self._break_off(chunk)
            raise
        self._walked_bytes += batch.header.size_bytes
        next_offset = max(state.position, batch.header.next_offset)
        if stop_offset is not None and next_offset > stop_offset:
            del records[bisect_left(records, stop_offset, key=_OFFSET) :]
            next_offset = stop_offset
        if not records:
            state.position = next_offset
            self._unsettled.add(state)
            return False
        self._next_offset = next_offset
        self._loads += 1
        self._unsettled.add(state)
        self._records = records
        self.current = iter(records)
        return True

    def _fault_in(self, chunk: Chunk, error: RecordError) -> CorruptRecordError:
        """Why the batch at the position cannot be read, and where a sound one follows."""
        state = chunk.state
        rest = memoryview(chunk.records)[self._walked_bytes :]
        reason = error.message
        if isinstance(error, DecompressedTooLargeError):
            header = read_header(rest)
            reason = (
                f"{header.size_bytes} bytes of a batch inflate to more than "
                f"max_decompressed_bytes={error.max_bytes}: raise it"
            )
            next_offset: int | None = header.next_offset
        else:
            sound = find_sound_batch(rest, 1, state.position + 1)
            next_offset = None if sound is None else sound.base_offset
        return CorruptRecordError(state.partition, state.position, reason, next_offset)

    def _break_off(self, chunk: Chunk) -> None:
        """Records fetched behind a fault must not be read as if there were none."""
        chunk.state.broken_generation = chunk.generation
        self._on_broken(chunk)
        self._end_chunk()

    def _decode(self, batch: RecordBatch, state: PartitionState) -> list[Record]:
        if batch.header.next_offset <= state.position:
            return []
        if self._aborted is not None and self._aborted.leaves_out(batch):
            return []
        if batch.header.is_control:
            return []
        if self._check_crcs:
            batch.check()
        return batch.records(
            *state.partition,
            from_offset=state.position,
            max_decompressed_bytes=self._max_decompressed_bytes,
        )

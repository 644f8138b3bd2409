"""Looking for records by time inside batches, of which some inflate to much."""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from seglog.broker.storage.errors import DeferredReadError
from seglog.protocol.compression import Codec, DecompressedTooLargeError
from seglog.protocol.limits import MAX_DECOMPRESSED_BYTES
from seglog.protocol.records.batch import HEADER_BYTES, RecordBatch
from seglog.protocol.records.search import find_timestamp, greatest_timestamp

SEARCHED_INLINE_BYTES_MAX: Final = 256 * 1024
"""So much of a batch is inflated by the thread that owns the log."""

_SEARCHES_MAX: Final = 64
"""The answers of so many searches are remembered, each whole: one that forgot what it has asked
would ask again for ever."""

Found: TypeAlias = tuple[int, int] | None
_Search: TypeAlias = tuple[int | None, int]
_Batch: TypeAlias = tuple[int, int]


class BatchSearch:
    """Searches batches; another thread searches those that inflate to much (DeferredReadError).

    The read that was deferred is tried again and asks the same, so answers are remembered by the
    offset and checksum of the batch: bytes with these do not change.

    Attributes:
        max_decompressed_bytes: bound on the inflated records of one batch.
    """

    __slots__ = ("_answers", "_path", "max_decompressed_bytes")

    def __init__(self, path: str) -> None:
        self._path = path
        self._answers: dict[_Search, dict[_Batch, Found | int]] = {}
        self.max_decompressed_bytes = MAX_DECOMPRESSED_BYTES

    def find_timestamp(self, batch: RecordBatch, target_ms: int, from_offset: int) -> Found:
        """See `seglog.protocol.records.search.find_timestamp`.

        Raises:
            DeferredReadError: the batch inflates to much.
            RecordError: the batch cannot be read.
        """
        search = partial(find_timestamp, batch.view, target_ms, from_offset=from_offset)
        found = self._answer(batch, (target_ms, from_offset), search)
        assert found is None or isinstance(found, tuple)
        return found

    def greatest_timestamp(self, batch: RecordBatch, from_offset: int) -> int | None:
        """See `seglog.protocol.records.search.greatest_timestamp`; raises as above."""
        search = partial(greatest_timestamp, batch.view, from_offset=from_offset)
        found = self._answer(batch, (None, from_offset), search)
        assert found is None or isinstance(found, int)
        return found

    def _answer(
        self,
        batch: RecordBatch,
        asked: _Search,
        search: Callable[..., Found | int],
    ) -> Found | int:
        limit = self.max_decompressed_bytes
        if batch.header.codec is Codec.NONE:
            return search()
        question = (batch.header.base_offset, batch.header.crc)
        answers = self._answers.get(asked, {})
        if question in answers:
            return answers[question]
        if batch.header.size_bytes - HEADER_BYTES <= SEARCHED_INLINE_BYTES_MAX:
            inline = min(limit, SEARCHED_INLINE_BYTES_MAX)
            try:
                return search(max_decompressed_bytes=inline)
            except DecompressedTooLargeError:
                if inline == limit:
                    raise
        raise DeferredReadError(
            self._path,
            f"the batch at offset {batch.header.base_offset} inflates to more than "
            f"{SEARCHED_INLINE_BYTES_MAX} bytes",
            partial(
                self._search_apart, asked, question, partial(search, max_decompressed_bytes=limit)
            ),
        )

    def _search_apart(
        self, asked: _Search, question: _Batch, search: Callable[[], Found | int]
    ) -> Callable[[], None]:
        """Search in another thread; the result stores the answer where the owner finds it."""
        return partial(self._remember, asked, question, search())

    def _remember(self, asked: _Search, question: _Batch, answer: Found | int) -> None:
        # The search that has just asked becomes the last one to be forgotten.
        answers = self._answers.pop(asked, {})
        answers[question] = answer
        self._answers[asked] = answers
        if len(self._answers) > _SEARCHES_MAX:
            del self._answers[next(iter(self._answers))]

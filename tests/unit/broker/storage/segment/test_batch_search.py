"""Searching batches that inflate to much, by another thread, with answers that are remembered."""

from seglog.broker.storage.errors import DeferredReadError
from seglog.broker.storage.segment import batch_search
from seglog.broker.storage.segment.batch_search import BatchSearch
from seglog.protocol.compression import Codec
from seglog.protocol.records.batch import RecordBatch, read_header
from seglog.protocol.records.builder import build_batch
from support.log_builder import NOW_MS


def large_batches(count: int) -> list[RecordBatch]:
    """Batches of one record each, which inflates to more than is searched inline."""
    value = bytes(batch_search.SEARCHED_INLINE_BYTES_MAX + 1)
    content = bytearray(build_batch([(NOW_MS, None, value, ())], codec=Codec.ZSTD))
    found = []
    for offset in range(count):
        content[:8] = offset.to_bytes(8, "big")
        found.append(RecordBatch(bytes(content)))
    return found


def search_all(search: BatchSearch, batches: list[RecordBatch], target_ms: int) -> int:
    """Search until nothing is deferred any more, as a lookup does; how often something was."""
    deferred = 0
    while True:
        try:
            for batch in batches:
                assert search.find_timestamp(batch, target_ms, 0) is None
        except DeferredReadError as error:
            deferred += 1
            assert deferred <= len(batches), "the same is asked again"
            error.work()()
        else:
            return deferred


def test_search_over_any_number_of_batches_comes_to_an_end() -> None:
    batches = large_batches(1100)
    assert read_header(batches[-1].view, 0).base_offset == 1099
    assert search_all(BatchSearch("a.log"), batches, NOW_MS + 1) == len(batches)


def test_answers_of_old_searches_are_forgotten() -> None:
    search = BatchSearch("a.log")
    (batch,) = large_batches(1)
    for number in range(70):
        assert search_all(search, [batch], NOW_MS + 1 + number) == 1
    assert search_all(search, [batch], NOW_MS + 70) == 0
    assert search_all(search, [batch], NOW_MS + 1) == 1

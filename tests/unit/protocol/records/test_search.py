"""Finding records by time inside a batch."""

import pytest

from seglog.protocol.compression import Codec
from seglog.protocol.records import build_batch, find_timestamp
from seglog.protocol.types import TimestampType
from support.batches import VECTORS, T

OUT_OF_ORDER = [(T + delta, b"k", b"v", ()) for delta in (5, 1, 9, 3, 9, 0)]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(
    ("target", "found"), [(0, (100, 5)), (5, (100, 5)), (6, (102, 9)), (9, (102, 9)), (10, None)]
)
def test_a_lookup_is_not_exact_to_the_record(
    codec: Codec, target: int, found: tuple[int, int] | None
) -> None:
    """LIST-5, also in compressed batches and with timestamps out of order."""
    batch = build_batch(OUT_OF_ORDER, base_offset=100, codec=codec)
    expected = None if found is None else (found[0], T + found[1])
    assert find_timestamp(batch, T + target) == expected


def test_a_record_below_the_log_start_is_found() -> None:
    batch = build_batch(OUT_OF_ORDER, base_offset=100)
    assert find_timestamp(batch, T + 4, from_offset=103) == (104, T + 9)
    assert find_timestamp(batch, T, from_offset=106) is None


def test_the_time_of_the_client_is_found_in_a_stamped_batch() -> None:
    """LIST-11; the first record that is left may not be the first offset of the batch."""
    batch = build_batch(
        OUT_OF_ORDER[:2],
        base_offset=100,
        offset_deltas=[3, 5],
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time_ms=T + 1000,
    )
    assert find_timestamp(batch, T + 6) == (103, T + 1000)
    assert find_timestamp(batch, T + 6, from_offset=104) == (105, T + 1000)
    assert find_timestamp(batch, T + 1001) is None


def test_something_is_found_in_an_emptied_batch() -> None:
    assert find_timestamp(VECTORS["emptied by compaction"], 0) is None

"""The next sound batch behind damage."""

import pytest

from seglog.protocol.records.batch import patch_offsets
from seglog.protocol.records.resync import find_sound_batch
from support.batches import client_batch


def batch_at(offset: int, count: int = 3) -> bytes:
    view = client_batch(count)
    patch_offsets(view, offset, 0)
    return bytes(view)


@pytest.mark.parametrize("gap", [0, 1, 15, 61, 4096])
@pytest.mark.parametrize("filler", [b"\x00", b"\x02", b"\xff"])
def test_a_batch_behind_any_bytes_is_found(gap: int, filler: bytes) -> None:
    header = find_sound_batch(filler * gap + batch_at(7) + batch_at(10), 0, 0)
    assert header is not None
    assert header.base_offset == 7


def test_a_batch_that_is_cut_or_damaged_or_old_is_passed_over() -> None:
    damaged = bytearray(batch_at(7))
    damaged[-1] ^= 1
    data = bytes(damaged) + batch_at(2) + batch_at(10) + batch_at(13)[:-1]
    header = find_sound_batch(data, 0, 8)
    assert header is not None
    assert header.base_offset == 10
    assert find_sound_batch(data, 0, 11) is None
    assert find_sound_batch(b"", 0, 0) is None

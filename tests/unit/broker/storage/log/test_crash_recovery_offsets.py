"""Rot in a batch's base offset, which no checksum covers: found by its neighbours."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.log_builder import KEEP, append, append_many, names_in, offsets_of, open_log, read_all

SMALL = replace(KEEP, segment_bytes=1000)


@pytest.mark.parametrize("byte", range(8))
@pytest.mark.parametrize("victim", [0, 2, 4])
def test_a_rotten_base_offset_keeps_its_batch_under_a_wrong_offset(
    tmp_path: Path, byte: int, victim: int
) -> None:
    """REC-4: the log ends before it, and is neither split nor renamed (C015 is another matter)."""
    log = open_log(tmp_path / "log", SMALL)
    append_many(log, 12)
    log.close()
    first, *_ = names_in(tmp_path / "log", ".log")
    path = tmp_path / "log" / first
    content = bytearray(path.read_bytes())
    size = len(content) // log.segments.base_offsets[1]
    content[victim * size + byte] ^= 0x40
    path.write_bytes(content)
    again = open_log(tmp_path / "log", SMALL)
    assert offsets_of(read_all(again)) == list(range(victim))
    assert append(again).first_offset == victim
    assert names_in(tmp_path / "log", ".log") == [first]


def test_gaps_that_compaction_left_are_taken_for_rot(tmp_path: Path) -> None:
    """READ-4: offsets ascend with gaps, and all of them stay."""
    folder = tmp_path / "log"
    log = open_log(folder, KEEP)
    append_many(log, 6)
    path = folder / f"{0:020d}.log"
    log.close()
    content = path.read_bytes()
    size = len(content) // 6
    path.write_bytes(b"".join(content[at * size : (at + 1) * size] for at in (1, 3, 5)))
    assert offsets_of(read_all(open_log(folder, KEEP))) == [1, 3, 5]

"""The ordered map of a log's segments."""

import random
from pathlib import Path

import pytest

from seglog.broker.storage.errors import FileError
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.log.segments import LogSegments
from support.faulty_file_system import FaultyFileSystem
from support.segment_builder import fill, new_segment


def test_lookups_disagree_with_a_linear_scan(tmp_path: Path) -> None:
    file_system = OsFileSystem()
    bases = [10, 20, 35, 60]
    made = {base: new_segment(file_system, tmp_path, base) for base in bases}
    order = list(made.values())
    random.Random(1).shuffle(order)
    segments = LogSegments(order)
    assert segments.base_offsets == bases
    assert [segment.base_offset for segment in segments] == bases
    assert (segments.first, segments.active, segments.last) == (made[10], made[60], made[60])
    assert segments.sealed() == [made[10], made[20], made[35]]
    for offset in range(5, 70):
        below = [base for base in bases if base <= offset]
        above = [base for base in bases if base > offset]
        assert segments.floor(offset) is (made[below[-1]] if below else None)
        assert segments.higher(offset) is (made[above[0]] if above else None)
        assert segments.higher_all(offset) == [made[base] for base in above]
        assert segments.get(offset) is made.get(offset)
        assert (offset in segments) == (offset in made)
        for end in range(offset, 70):
            ranges = zip(bases, [*bases[1:], 10**9], strict=True)
            expected = [
                base
                for base, next_base in ranges
                if offset < end and base < end and next_base > offset
            ]
            assert [one.base_offset for one in segments.values(offset, end)] == expected
    segments.close()


def test_removed_segment_is_found(tmp_path: Path) -> None:
    file_system = OsFileSystem()
    segments = LogSegments(new_segment(file_system, tmp_path, base) for base in (0, 5, 9))
    fill(segments.active, 2, first_offset=9)
    assert segments.size_bytes == 190
    for segment in segments:
        if segment.base_offset == 5:
            assert segments.remove(5) is segment
    assert segments.remove(5) is None
    assert segments.remove(6) is None
    assert segments.base_offsets == [0, 9]
    other = new_segment(file_system, tmp_path, 0)
    assert segments.add(other) is not other
    assert segments.first is other
    assert len(segments) == 2
    assert len(segments.clear()) == 2
    assert (len(segments), segments.first, segments.last) == (0, None, None)


def test_failure_leaves_other_segments_open(tmp_path: Path) -> None:
    file_system = FaultyFileSystem()
    segments = LogSegments(new_segment(file_system, tmp_path, base) for base in (0, 5, 9))
    for segment in segments:
        fill(segment, 1, first_offset=segment.base_offset)
    file_system.calls.fail("truncate", path_part="00005.index")
    with pytest.raises(FileError, match="resize"):
        segments.close()
    assert file_system.open_files == 0

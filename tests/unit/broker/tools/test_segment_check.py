"""Indexes against data: what does not fit is found, what is normal is not."""

from pathlib import Path

import pytest

from seglog.broker.tools.findings import Findings
from seglog.broker.tools.index_file import read_offset_index, read_time_index
from seglog.broker.tools.read_only import read_only_files
from seglog.broker.tools.segment_check import SegmentRole, check_segment
from support.segment_builder import NOW_MS, append, batch, fill, new_segment
from support.tool_folders import FILE_SYSTEM, overwrite

CLOSED = SegmentRole(is_active=False, is_doubtful=False)
ACTIVE = SegmentRole(is_active=True, is_doubtful=False)
DOUBTFUL = SegmentRole(is_active=True, is_doubtful=True)
STEM = "00000000000000000000"


def make_segment(folder: Path, *, closed: bool = True, base_offset: int = 0) -> None:
    segment = new_segment(FILE_SYSTEM, folder, base_offset)
    fill(segment, 40, first_offset=base_offset, records=2)
    if closed:
        segment.on_become_inactive()
    segment.files.close()


def check(folder: Path, role: SegmentRole = CLOSED, base_offset: int = 0) -> list[str]:
    findings = Findings()
    check_segment(read_only_files(), str(folder), base_offset, role, findings)
    return [str(finding).replace(str(folder) + "/", "") for finding in findings.all]


def test_a_whole_segment_has_faults(tmp_path: Path) -> None:
    make_segment(tmp_path)
    assert check(tmp_path) == []
    summary = check_segment(read_only_files(), str(tmp_path), 0, CLOSED, Findings())
    assert summary is not None
    assert (summary.batches, summary.records, summary.next_offset) == (40, 80, 80)
    assert summary.max_timestamp_ms == NOW_MS + 790


def test_a_base_offset_above_zero_confuses(tmp_path: Path) -> None:
    make_segment(tmp_path, base_offset=5_000_000_000)
    assert check(tmp_path, base_offset=5_000_000_000) == []


def test_the_reserve_of_an_active_segment_is_a_fault(tmp_path: Path) -> None:
    make_segment(tmp_path, closed=False)
    content = read_offset_index(read_only_files(), f"{tmp_path}/{STEM}.index", 0)
    assert content.entries
    assert content.reserve_bytes
    assert check(tmp_path, ACTIVE) == []
    assert any("although the segment is closed" in each for each in check(tmp_path, CLOSED))


@pytest.mark.parametrize(
    ("entry", "field", "words"),
    [
        # An offset index entry is an offset and a position, four bytes each.
        (1, 0, "does not follow"),
        (1, 3, "the batch there ends with offset"),
        (1, 7, "no batch begins there"),
    ],
)
def test_an_entry_of_the_offset_index_is_wrong(
    tmp_path: Path, entry: int, field: int, words: str
) -> None:
    make_segment(tmp_path)
    path = tmp_path / f"{STEM}.index"
    position = entry * 8 + field
    overwrite(path, position, bytes([path.read_bytes()[position] ^ 1]))
    found = check(tmp_path)
    assert found
    assert all(each.startswith(f"fault: {STEM}.index: ") for each in found)
    assert any(words in each for each in found)


def test_an_entry_of_the_time_index_is_wrong(tmp_path: Path) -> None:
    make_segment(tmp_path)
    path = tmp_path / f"{STEM}.timeindex"
    overwrite(path, 12 + 7, bytes([path.read_bytes()[12 + 7] + 1]))
    (found,) = check(tmp_path)
    assert "the greatest timestamp up to there is" in found


def test_an_entry_of_the_time_index_names_a_later_batch(tmp_path: Path) -> None:
    """A search for its time would not find the first record that has it."""
    segment = new_segment(FILE_SYSTEM, tmp_path)
    append(segment, batch(0, [NOW_MS + 100]), *(batch(n, [NOW_MS + n]) for n in range(1, 9)))
    segment.on_become_inactive()
    segment.files.close()
    assert check(tmp_path) == []
    overwrite(tmp_path / f"{STEM}.timeindex", -1, b"\5")
    (found,) = check(tmp_path)
    assert "an earlier batch has that timestamp" in found


def test_the_closing_entry_of_the_time_index_is_missing(tmp_path: Path) -> None:
    make_segment(tmp_path)
    path = tmp_path / f"{STEM}.timeindex"
    entries = read_time_index(read_only_files(), str(path), 0).entries
    path.write_bytes(path.read_bytes()[:-12])
    (found,) = check(tmp_path)
    assert f"its last timestamp is {entries[-2][0]}" in found
    assert check(tmp_path, ACTIVE) == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_of_half_an_entry_passes(tmp_path: Path, suffix: str) -> None:
    make_segment(tmp_path)
    path = tmp_path / (STEM + suffix)
    path.write_bytes(path.read_bytes() + b"\1\2\3")
    assert any("3 bytes of an entry" in each for each in check(tmp_path))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_index_of_a_closed_segment_passes(tmp_path: Path, suffix: str) -> None:
    make_segment(tmp_path)
    (tmp_path / (STEM + suffix)).unlink()
    assert check(tmp_path) == [f"fault: {STEM}{suffix}: there is no such file"]
    assert check(tmp_path, ACTIVE) == [f"note: {STEM}{suffix}: there is no such file"]


def test_a_torn_tail_is_judged_without_asking_who_writes(tmp_path: Path) -> None:
    make_segment(tmp_path, closed=False)
    path = tmp_path / f"{STEM}.log"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-10])
    (fault,) = [each for each in check(tmp_path, ACTIVE) if ".log" in each]
    assert fault.startswith("fault: ")
    found = check(tmp_path, DOUBTFUL)
    assert found
    assert all(each.startswith("note: ") for each in found)
    assert any("is cut off after" in each for each in found)
    assert path.stat().st_size == size - 10


def test_a_damaged_batch_makes_its_index_entries_faults(tmp_path: Path) -> None:
    """One damage, one line: entries about a batch that cannot be read cannot be judged."""
    make_segment(tmp_path)
    overwrite(tmp_path / f"{STEM}.log", -1, b"\xff")
    (found,) = [each for each in check(tmp_path) if "its last timestamp" not in each]
    assert "the checksum is" in found


def test_an_index_that_tells_of_more_than_there_is_passes(tmp_path: Path) -> None:
    make_segment(tmp_path)
    path = tmp_path / f"{STEM}.log"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found = check(tmp_path)
    assert any(".index" in each and "behind the last whole batch" in each for each in found)
    assert any(".timeindex" in each and "behind the last whole batch" in each for each in found)

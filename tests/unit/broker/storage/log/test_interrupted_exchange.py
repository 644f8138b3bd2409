"""Tidying a folder after a swap that a crash has cut short."""

from dataclasses import replace
from pathlib import Path

import pytest

from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.log.interrupted_exchange import tidy_folder
from seglog.broker.storage.segment.segment import LogSegment
from support.log_builder import KEEP, NOW_MS, names_in, offsets_of, open_log, read_all
from support.recording_file_system import Keep, RecordingFileSystem
from support.segment_builder import append, batch

SMALL = replace(KEEP, segment_index_bytes=1200)
COMPACTED = replace(SMALL, cleanup_policy=frozenset({"compact"}))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


def make(directory: Path, base_offset: int, offsets: list[int], suffix: str = "") -> None:
    """A sealed segment on disk."""
    segment = LogSegment.create(
        OsFileSystem(), str(directory), base_offset, SMALL, NOW_MS, suffix=suffix
    )
    append(segment, *(batch(offset) for offset in offsets))
    segment.close()


def tidy(directory: Path) -> list[str]:
    """The data files that are left."""
    names = tidy_folder(OsFileSystem(), str(directory), SMALL, NOW_MS)
    assert names == names_in(directory)
    return [name.lstrip("0") for name in names if ".log" in name]


def test_folder_without_traces_is_left_alone(directory: Path) -> None:
    make(directory, 0, [0, 1])
    (directory / "leader-epoch-checkpoint").write_text("0\n0\n")
    before = names_in(directory)
    tidy(directory)
    assert names_in(directory) == before


def test_cleaned_files_are_dropped(directory: Path) -> None:
    """Storage-format 12, step 1: the swap had not begun."""
    make(directory, 0, [0, 1])
    make(directory, 0, [1], ".cleaned")
    assert tidy(directory) == [".log"]
    assert not names_in(directory, ".cleaned")


def test_swap_files_above_a_cleaned_one_are_dropped(directory: Path) -> None:
    """Step 1: renaming goes from the highest base offset down, so the swap is incomplete."""
    make(directory, 0, [0, 1])
    make(directory, 5, [5, 6])
    make(directory, 0, [1], ".cleaned")
    make(directory, 5, [6], ".swap")
    assert tidy(directory) == [".log", "5.log"]
    assert offsets_of(read_all(open_log(directory, COMPACTED))) == [0, 1, 5, 6]


def test_swap_files_below_a_cleaned_one_belong_to_a_complete_swap(directory: Path) -> None:
    """Step 1: it is another, older swap."""
    make(directory, 0, [0, 1])
    make(directory, 5, [5, 6])
    make(directory, 0, [1], ".swap")
    make(directory, 5, [6], ".cleaned")
    assert tidy(directory) == [".log", "5.log"]
    assert offsets_of(read_all(open_log(directory, COMPACTED))) == [1, 5, 6]


def test_complete_swap_replaces_what_it_covers(directory: Path) -> None:
    """Step 2."""
    for base_offset in (0, 5, 10, 15):
        make(directory, base_offset, [base_offset, base_offset + 1])
    make(directory, 0, [1, 6], ".swap")
    make(directory, 10, [11], ".swap")
    assert tidy(directory) == [".log", "10.log", "15.log"]
    assert offsets_of(read_all(open_log(directory, COMPACTED))) == [1, 6, 11, 15, 16]


def test_an_empty_swap_file_costs_records(directory: Path) -> None:
    """SEG-4, REC-20: perhaps nothing was to stay, perhaps it lost it; the next pass knows."""
    make(directory, 0, [0, 1])
    make(directory, 5, [5, 6])
    make(directory, 0, [], ".swap")
    assert tidy(directory) == [".log", "5.log"]
    assert offsets_of(read_all(open_log(directory, COMPACTED))) == [0, 1, 5, 6]


def test_an_empty_segment_does_not_come_where_its_source_has_gone(directory: Path) -> None:
    """SEG-4."""
    make(directory, 5, [5, 6])
    make(directory, 0, [], ".swap")
    assert tidy(directory) == [".log", "5.log"]
    assert offsets_of(read_all(open_log(directory, COMPACTED))) == [5, 6]


@pytest.mark.parametrize("missing", [".log", ".index", ".timeindex"])
def test_half_renamed_segment_is_completed(directory: Path, missing: str) -> None:
    """A crash between the renames of one segment's files."""
    make(directory, 0, [0, 1])
    make(directory, 0, [1], ".swap")
    name = f"{0:020d}{missing}"
    (directory / f"{name}.swap").rename(directory / name)
    tidy(directory)
    assert not names_in(directory, ".swap")
    assert offsets_of(read_all(open_log(directory, COMPACTED))) == [1]


@pytest.mark.parametrize("damage", ["junk", "flipped bit", "cut"])
def test_damaged_swap_file_replaces_what_is_whole(directory: Path, damage: str) -> None:
    """REC-20: the sources are still there."""
    make(directory, 0, [0, 1])
    make(directory, 5, [5, 6])
    make(directory, 0, [1, 6], ".swap")
    path = directory / f"{0:020d}.log.swap"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes({"junk": bytes(500), "cut": content[:-10]}.get(damage, content))
    assert tidy(directory) == [".log", "5.log"]
    assert not names_in(directory, ".swap")
    assert offsets_of(read_all(open_log(directory, COMPACTED))) == [0, 1, 5, 6]


def test_damaged_swap_file_does_not_stop_the_start(directory: Path) -> None:
    make(directory, 0, [0, 1])
    make(directory, 5, [5, 6])
    make(directory, 0, [1], ".swap")
    with (directory / f"{0:020d}.log.swap").open("ab") as file:
        file.write(bytes(100))
    assert tidy(directory) == [".log", "5.log"]
    assert not names_in(directory, ".swap")


def test_deleted_and_temporary_files_go(directory: Path) -> None:
    """Step 3."""
    make(directory, 0, [0, 1])
    make(directory, 5, [5, 6], ".deleted")
    (directory / "partition.metadata.tmp").write_bytes(b"")
    assert tidy(directory) == [".log"]
    assert not names_in(directory, ".tmp")


def damage_swap(directory: Path, base_offset: int) -> None:
    """Change a byte of a data file that is to be swapped in."""
    path = directory / f"{base_offset:020d}.log.swap"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("taken_away", [1, 2])
def test_sources_of_a_damaged_swap_get_their_names_back(
    directory: Path, taken_away: int, caplog: pytest.LogCaptureFixture
) -> None:
    """U10, REC-20: some or all of them are called ``.deleted`` already, and are still good."""
    for number, base_offset in enumerate((0, 5)):
        suffix = ".deleted" if number < taken_away else ""
        make(directory, base_offset, [base_offset, base_offset + 1], suffix)
    make(directory, 10, [10, 11])
    make(directory, 0, [1, 6], ".swap")
    damage_swap(directory, 0)
    assert tidy(directory) == [".log", "5.log", "10.log"]
    assert offsets_of(read_all(open_log(directory, COMPACTED))) == [0, 1, 5, 6, 10, 11]
    assert caplog.text.count("event=swap-source-restored") == taken_away
    assert not names_in(directory, ".swap")


def test_sources_of_a_damaged_swap_are_not_taken_from_an_earlier_one(directory: Path) -> None:
    """What the first source holds already was replaced by it, and waits for its removal."""
    make(directory, 0, [0, 6], ".deleted")
    make(directory, 5, [5, 6], ".deleted")
    make(directory, 0, [6], ".swap")
    damage_swap(directory, 0)
    assert tidy(directory) == [".log"]
    assert offsets_of(read_all(open_log(directory, COMPACTED))) == [0, 6]


def test_damaged_swap_stays_where_its_sources_are_gone(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What can be read of it is all that is left; recovery cuts the rest."""
    make(directory, 0, [1, 6, 7], ".swap")
    damage_swap(directory, 0)
    assert tidy(directory) == [".log"]
    assert offsets_of(read_all(open_log(directory, COMPACTED))) == [1, 6]
    assert "event=damaged-swap-promoted" in caplog.text


def test_crash_while_a_damaged_swap_is_undone_keeps_its_sources(tmp_path: Path) -> None:
    """U10: at every change, whether or not the names have reached the disk."""
    directory = tmp_path / "disk" / "log"
    directory.mkdir(parents=True)
    for base_offset in (0, 5, 10):
        make(directory, base_offset, [base_offset, base_offset + 1], ".deleted")
    make(directory, 0, [1], ".swap")
    make(directory, 5, [6, 11], ".swap")
    damage_swap(directory, 5)
    disk = RecordingFileSystem(tmp_path / "disk")
    tidy_folder(disk, str(directory), SMALL, NOW_MS)
    for change in range(len(disk.changes) + 1):
        for keep in (Keep.EVERYTHING, Keep.NOTHING, 1, 2):
            left = disk.after_power_cut(tmp_path / f"{change}-{keep}", changes=change, keep=keep)
            log = open_log(left / "log", COMPACTED)
            assert offsets_of(read_all(log)) == [0, 1, 5, 6, 10, 11]
            log.abandon()

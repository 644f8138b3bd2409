"""What is written and what is on disk, seen by several threads."""

import pytest

from seglog.broker.storage.errors import FileError
from seglog.broker.storage.files.file_positions import FilePosition, FilePositions


def test_sync_covers_what_was_written_when_it_began() -> None:
    """S2: the rest may or may not be on disk."""
    positions = FilePositions(0, is_new=True)
    positions.advance(300)
    covered = positions.begin_sync("x.log")
    assert covered is not None
    assert covered == (0, 300)
    positions.advance(400)
    positions.end_sync(covered)
    assert positions.synced == (0, 300)
    assert positions.needs_sync
    assert positions.begin_sync("x.log", target=FilePosition(0, 300)) is None
    assert positions.begin_sync("x.log") == (0, 400)


def test_sync_from_before_a_cut_does_not_cover_what_is_written_after_it() -> None:
    """The file is as long again, with other bytes."""
    positions = FilePositions(0, is_new=True)
    positions.advance(300)
    covered = positions.begin_sync("x.log")
    assert covered is not None
    positions.change(100)
    positions.advance(300)
    positions.end_sync(covered)
    assert positions.needs_sync


def test_cut_needs_a_sync_of_its_own() -> None:
    """After a power cut the file would have its old length."""
    positions = FilePositions(300)
    positions.assume_synced()
    assert not positions.needs_sync
    positions.change(100)
    assert positions.needs_sync


def test_file_is_of_no_use_after_a_failed_sync() -> None:
    positions = FilePositions(10)
    assert positions.begin_sync("x.log") == (0, 10)
    positions.fail(FileError("sync", "x.log", "Input/output error"))
    positions.fail(FileError("sync", "x.log", "another reason"))
    with pytest.raises(FileError, match="Input/output"):
        positions.begin_sync("x.log")
    with pytest.raises(FileError, match="Input/output"):
        positions.check()
    assert positions.needs_sync


def test_second_sync_is_refused_while_the_first_has_not_ended() -> None:
    """S3: the kernel reports a failed write-back once, and perhaps to the other one."""
    positions = FilePositions(10)
    covered = positions.begin_sync("x.log")
    assert covered is not None
    with pytest.raises(FileError, match="has not ended"):
        positions.begin_sync("x.log")
    positions.end_sync(covered)
    assert positions.begin_sync("x.log") is None


def test_file_that_was_there_before_is_not_known_to_be_on_disk() -> None:
    """What a killed broker has written may be in memory only, its name as well."""
    positions = FilePositions(10)
    assert positions.needs_sync
    assert positions.needs_name_sync
    positions.assume_synced()
    assert not positions.needs_sync
    assert not positions.needs_name_sync


def test_new_file_needs_a_sync_of_its_name_only() -> None:
    positions = FilePositions(0, is_new=True)
    assert not positions.needs_sync
    assert positions.needs_name_sync
    positions.name_synced()
    assert not positions.needs_name_sync

"""The fakes that fail hit what a test names, and nothing that pytest names."""

from pathlib import Path

import pytest

from support import own_paths


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> str:
    """As the first run in an empty temporary folder has it."""
    folder = "/tmp/pytest-of-somebody/pytest-0"
    monkeypatch.setattr(own_paths, "_base_folder", [folder])
    return folder


def test_a_piece_is_looked_for_below_the_folder_of_the_test(base: str) -> None:
    assert own_paths.is_part_of("t-0", f"{base}/test_log0/t-0/a.log")
    assert not own_paths.is_part_of("t-0", f"{base}/test_log0/t-1/a.log")
    assert not own_paths.is_part_of("log", f"{base}/test_log0/t-1")
    assert own_paths.is_part_of("t-1/", f"{base}/popen-gw0/t-1/a.log")


def test_a_whole_path_is_compared_as_a_whole(base: str) -> None:
    assert own_paths.is_part_of(f"{base}/test_log0", f"{base}/test_log0/t-0")
    assert not own_paths.is_part_of(f"{base}/test_log1", f"{base}/test_log0/t-0")


def test_a_path_elsewhere_is_compared_as_a_whole(tmp_path: Path) -> None:
    assert own_paths.is_part_of("shm", "/dev/shm/folder")
    assert not own_paths.is_part_of("test_a_path", f"{tmp_path}/x")

"""Which segment files an offline load reads; without a session."""

import os
import shutil
from pathlib import Path

import pytest

from seglog.clients.errors import ConfigurationError
from seglog.clients.spark.file_options import read_file_options
from seglog.clients.spark.files_source import SeglogFilesReader
from seglog.protocol.records.builder import build_batch


def make_log(folder: Path, segments: dict[int, int], topic_id: str = "") -> Path:
    """A log with so many records in the segments that begin at these offsets."""
    folder.mkdir(parents=True)
    for base, count in segments.items():
        data = b"".join(
            bytes(build_batch([(1, None, b"%d" % offset, ())], base_offset=offset))
            for offset in range(base, base + count)
        )
        (folder / f"{base:020}.log").write_bytes(data)
    if topic_id:
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    return folder


def rows(*paths: Path | str, **options: str) -> list[tuple[str, int, int]]:
    """(topic, partition, offset) of all that is read."""
    given = {"path": ",".join(map(str, paths))} | options
    reader = SeglogFilesReader(read_file_options(given))
    return sorted(
        row
        for split in reader.partitions()
        for batch in reader.read(split)
        for row in zip(
            *(batch[name].to_pylist() for name in ("topic", "partition", "offset")), strict=True
        )
    )


def offsets(topic: str, partition: int, start: int, end: int) -> list[tuple[str, int, int]]:
    return [(topic, partition, offset) for offset in range(start, end)]


def test_an_empty_first_segment_is_read_as_nothing(tmp_path: Path) -> None:
    """U30: any folder with ``__consumer_offsets-0``."""
    make_log(tmp_path / "__consumer_offsets-0", {0: 0})
    assert rows(tmp_path) == []
    make_log(tmp_path / "a-0", {0: 0, 5: 3})
    assert rows(tmp_path, taskBytes="1") == offsets("a", 0, 5, 8)


def test_copies_of_a_log_give_each_record_once(tmp_path: Path) -> None:
    """P9: a replica that is behind, and a backup with what was deleted since for its age."""
    make_log(tmp_path / "backup" / "a-0", {0: 10, 10: 10}, "id")
    make_log(tmp_path / "one" / "a-0", {10: 10, 20: 10}, "id")
    make_log(tmp_path / "two" / "a-0", {10: 10, 20: 7}, "id")
    make_log(tmp_path / "two" / "a-1", {0: 4}, "id")
    expected = [*offsets("a", 0, 0, 30), *offsets("a", 1, 0, 4)]
    assert rows(tmp_path / "*") == expected
    assert rows(tmp_path / "two", tmp_path / "backup", tmp_path / "one") == expected
    assert rows(tmp_path / "two") == [*offsets("a", 0, 10, 27), *offsets("a", 1, 0, 4)]


def test_one_folder_by_several_ways_gives_each_record_once(tmp_path: Path) -> None:
    make_log(tmp_path / "data" / "a-0", {0: 5})
    os.symlink(tmp_path / "data", tmp_path / "link")
    assert rows(tmp_path / "data", tmp_path / "link", tmp_path / "data" / "a-*") == offsets(
        "a", 0, 0, 5
    )


def test_what_was_deleted_by_offset_stays_so_in_every_copy(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_log(tmp_path / name / "a-0", {0: 10, 10: 10})
    (tmp_path / "two" / "log-start-offset-checkpoint").write_text("0\n1\na 0 7\n")
    assert rows(tmp_path / "*") == offsets("a", 0, 7, 20)


def test_different_topics_of_one_name_are_refused(tmp_path: Path) -> None:
    make_log(tmp_path / "one" / "a-0", {0: 10}, "id")
    make_log(tmp_path / "two" / "a-0", {0: 10}, "other")
    with pytest.raises(ConfigurationError, match="different topics with one name"):
        rows(tmp_path / "*")
    assert rows(tmp_path / "two") == offsets("a", 0, 0, 10)


def test_folders_are_found_whatever_their_names(tmp_path: Path) -> None:
    """P9: a data folder that looks like a log, one with brackets, and a text log beside logs."""
    make_log(tmp_path / "kafka-1" / "a-0", {0: 3})
    (tmp_path / "kafka-1" / "server.log").write_text("started")
    assert rows(tmp_path / "kafka-1") == offsets("a", 0, 0, 3)
    shutil.move(tmp_path / "kafka-1", tmp_path / "b[1]")
    assert rows(tmp_path / "b[1]") == offsets("a", 0, 0, 3)

"""The topic catalog and its file (C029, C043)."""

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.broker.storage.directories.catalog_file import (
    CatalogState,
    decode_catalog,
    encode_catalog,
)
from seglog.broker.storage.directories.disk_reserve import RESERVE_FILE, DiskReserve
from seglog.broker.storage.directories.topic_catalog import TopicCatalog, UnreadableCatalogError
from seglog.broker.storage.errors import DiskFullError, FileError, InvalidTopicNameError
from seglog.broker.storage.files.file_system import OsFileSystem
from support.failing_disk import FailingDisk


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
def files(disk: FailingDisk) -> OsFileSystem:
    return OsFileSystem(disk)


@pytest.fixture
def catalog(files: OsFileSystem, tmp_path: Path) -> TopicCatalog:
    return TopicCatalog(files, [str(tmp_path)], CatalogState())


def _reopen(files: OsFileSystem, *paths: Path) -> TopicCatalog:
    catalog = TopicCatalog.open(files, [str(path) for path in paths])
    assert catalog is not None
    return catalog


def test_a_change_is_lost_by_a_restart(
    catalog: TopicCatalog, files: OsFileSystem, tmp_path: Path
) -> None:
    created = catalog.create_topic("t", None, 3, {"retention.ms": "-1"})
    catalog.create_topic("gone", None, 1, {})
    catalog.grow_topic("t", 5)
    catalog.alter_topic("t", {"segment.bytes": "99"})
    deleted = catalog.delete_topic("gone")
    catalog.alter_broker({"log.segment.bytes": "7"}, {"log.retention.ms": "8"})
    reopened = _reopen(files, tmp_path)
    [topic] = reopened.topics()
    assert topic.topic_id == created.topic_id
    assert topic.partition_count == 5
    assert dict(topic.configs) == {"segment.bytes": "99"}
    assert reopened.state.deleting == {deleted.topic_id}
    assert dict(reopened.dynamic) == {"log.segment.bytes": "7"}
    assert dict(reopened.dynamic_defaults) == {"log.retention.ms": "8"}
    assert not reopened.is_fallback


def test_a_directory_without_catalog_looks_like_a_damaged_one(
    files: OsFileSystem, tmp_path: Path
) -> None:
    assert TopicCatalog.open(files, [str(tmp_path)]) is None


@pytest.mark.parametrize("name", ["seglog-catalog", "seglog-catalog.copy"])
@pytest.mark.parametrize("damage", ["empty", "zeros", "half", "version", "bit", "gone"])
def test_one_damaged_copy_costs_a_topic(
    catalog: TopicCatalog, files: OsFileSystem, tmp_path: Path, name: str, damage: str
) -> None:
    """C029."""
    catalog.create_topic("t", None, 3, {"retention.ms": "-1"})
    path = tmp_path / name
    content = path.read_bytes()
    match damage:
        case "empty":
            path.write_bytes(b"")
        case "zeros":
            path.write_bytes(bytes(len(content)))
        case "half":
            path.write_bytes(content[: len(content) // 2])
        case "version":
            path.write_bytes(content.replace(b"seglog-catalog 1", b"seglog-catalog 99"))
        case "bit":
            path.write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])
        case "gone":
            path.unlink()
    reopened = _reopen(files, tmp_path)
    topic = reopened.get("t")
    assert topic is not None
    assert topic.configs["retention.ms"] == "-1"
    reopened.save()
    assert not _reopen(files, tmp_path).is_fallback


def test_a_start_without_any_good_copy_deletes_by_default_retention(
    catalog: TopicCatalog, files: OsFileSystem, tmp_path: Path
) -> None:
    catalog.create_topic("t", None, 3, {"retention.ms": "-1"})
    for name in ("seglog-catalog", "seglog-catalog.copy"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(
        UnreadableCatalogError, match=r"seglog-catalog.*seglog-catalog\.copy"
    ) as caught:
        TopicCatalog.open(files, [str(tmp_path)])
    assert "\n" not in str(caught.value)


def test_an_older_copy_wins(files: OsFileSystem, tmp_path: Path) -> None:
    """A directory that was away for a while comes back with an old catalog."""
    away, stayed = tmp_path / "away", tmp_path / "stayed"
    away.mkdir()
    stayed.mkdir()
    both = TopicCatalog(files, [str(away), str(stayed)], CatalogState())
    both.create_topic("old", None, 1, {})
    both.leave_out(str(away))
    both.create_topic("new", None, 1, {})
    assert {topic.name for topic in _reopen(files, away, stayed).topics()} == {"old", "new"}


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "a b", "a\0b", "x" * 250, "\u00e9", "a_b", "a.b"]
)
def test_an_illegal_or_colliding_name_is_taken(
    catalog: TopicCatalog, tmp_path: Path, name: str
) -> None:
    """C043: code 17, and nothing on disk."""
    catalog.create_topic("a.b", None, 1, {})
    before = (tmp_path / "seglog-catalog").read_bytes()
    with pytest.raises(InvalidTopicNameError) as caught:
        catalog.create_topic(name, None, 1, {})
    assert caught.value.code == 17
    assert (tmp_path / "seglog-catalog").read_bytes() == before
    if name == "a_b":
        assert "'a.b'" in str(caught.value)


@pytest.mark.parametrize("name", ["a-b", "a-1", "A", "x" * 249, "__consumer_offsets"])
def test_a_legal_name_is_refused(catalog: TopicCatalog, name: str) -> None:
    """C043."""
    catalog.create_topic("a", None, 12, {})
    assert catalog.create_topic(name, None, 1, {}).name == name


def test_a_full_disk_leaves_a_change_half_done(
    catalog: TopicCatalog, disk: FailingDisk, files: OsFileSystem, tmp_path: Path
) -> None:
    catalog.create_topic("t", None, 1, {})
    disk.full.add("seglog-catalog")
    with pytest.raises(DiskFullError):
        catalog.create_topic("u", None, 1, {})
    assert catalog.get("u") is None
    disk.full.clear()
    assert _reopen(files, tmp_path).get("u") is None


def test_retention_cannot_be_shortened_on_a_full_disk(
    catalog: TopicCatalog, disk: FailingDisk, files: OsFileSystem, tmp_path: Path
) -> None:
    """The reserve is given up for it."""
    catalog.create_topic("t", None, 1, {})
    reserve = DiskReserve(files, str(tmp_path))
    catalog.write_to_free_space = lambda _path, write: reserve.write_to_free_space(write)
    reserve.keep()
    disk.full_until_unlinked(RESERVE_FILE)
    with pytest.raises(DiskFullError):
        catalog.alter_topic("t", {"retention.bytes": "-1"})
    with pytest.raises(DiskFullError):
        catalog.create_topic("new", None, 1, {})
    catalog.alter_topic("t", {"retention.bytes": "1"}, frees_space=True)
    assert (tmp_path / RESERVE_FILE).exists()
    topic = _reopen(files, tmp_path).get("t")
    assert topic is not None
    assert topic.configs["retention.bytes"] == "1"


def test_one_failed_directory_stops_changes(
    disk: FailingDisk, files: OsFileSystem, tmp_path: Path
) -> None:
    """MGR-6."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    catalog = TopicCatalog(files, [str(bad), str(good)], CatalogState())
    disk.broken.add("/bad/")
    reported: list[str] = []
    catalog.report = lambda directory, _error: reported.append(directory)
    catalog.create_topic("t", None, 1, {})
    assert reported == [str(bad)]
    catalog.leave_out(str(bad))
    catalog.create_topic("u", None, 1, {})
    assert len(reported) == 1
    disk.broken.add("/good/")
    with pytest.raises(FileError):
        catalog.create_topic("v", None, 1, {})
    assert catalog.get("v") is None


def test_a_deletion_is_remembered_for_ever(
    catalog: TopicCatalog, files: OsFileSystem, tmp_path: Path
) -> None:
    topic_id = catalog.create_topic("t", None, 1, {}).topic_id
    catalog.delete_topic("t")
    catalog.folders_are_gone(topic_id)
    catalog.save()
    assert _reopen(files, tmp_path).state.deleting == frozenset()


_NAMES = st.text("ab.-_", min_size=1, max_size=5)


@given(
    st.dictionaries(_NAMES, st.text(max_size=5), max_size=3),
    st.dictionaries(_NAMES, st.text(max_size=5), max_size=3),
    st.integers(0, 2**62),
)
def test_what_is_written_is_not_read_back(
    dynamic: dict[str, str], defaults: dict[str, str], generation: int
) -> None:
    state = CatalogState(generation, None, dynamic=dynamic, dynamic_defaults=defaults)
    assert decode_catalog(encode_catalog(state)) == state


@given(st.binary(max_size=200))
def test_garbage_brings_the_reader_down(content: bytes) -> None:
    for data in (content, b"seglog-catalog 1 " + content):
        with pytest.raises(ValueError, match=r"catalog|version|checksum"):
            decode_catalog(data)


def test_a_producer_id_is_handed_out_twice(tmp_path: Path) -> None:
    """Blocks never overlap: not after a restart, nor from a floor that is already passed."""
    catalog = TopicCatalog(OsFileSystem(), [str(tmp_path)], CatalogState())
    assert catalog.reserve_producer_ids(1000, 0) == 0
    assert catalog.reserve_producer_ids(1000, 5000) == 5000
    again = TopicCatalog.open(OsFileSystem(), [str(tmp_path)])
    assert again is not None
    assert again.reserve_producer_ids(1000, 10) == 6000


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_first_copy_that_cannot_be_read_gives_way_to_the_second_and_is_kept(
    catalog: TopicCatalog, disk: FailingDisk, files: OsFileSystem, tmp_path: Path, number: int
) -> None:
    """U18: it is not "no catalog", and may know more than the other one."""
    catalog.create_topic("t", None, 3, {"cleanup.policy": "compact"})
    unreadable = (tmp_path / "seglog-catalog").read_bytes()
    disk.unreadable["seglog-catalog"] = number
    reopened = _reopen(files, tmp_path)
    disk.unreadable.clear()
    topic = reopened.get("t")
    assert topic is not None
    assert topic.configs == {"cleanup.policy": "compact"}
    reopened.save()
    assert (tmp_path / "seglog-catalog.unreadable").read_bytes() == unreadable
    assert _reopen(files, tmp_path).get("t") is not None


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_catalog_that_nobody_can_read_refuses_the_start_and_stays(
    catalog: TopicCatalog, disk: FailingDisk, files: OsFileSystem, tmp_path: Path, number: int
) -> None:
    """U18."""
    catalog.create_topic("t", None, 3, {"cleanup.policy": "compact"})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    disk.unreadable.update({"seglog-catalog": number, "seglog-catalog.copy": number})
    with pytest.raises(UnreadableCatalogError, match=r"let user id \d+ read them"):
        TopicCatalog.open(files, [str(tmp_path)])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_unreadable_directory_beside_a_good_one_is_left_out(
    disk: FailingDisk, files: OsFileSystem, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    TopicCatalog(files, [str(bad), str(good)], CatalogState()).create_topic("t", None, 1, {})
    disk.broken.add("/bad/")
    reopened = _reopen(files, bad, good)
    assert reopened.get("t") is not None
    assert [directory for directory, _ in reopened.failures] == [str(bad)]

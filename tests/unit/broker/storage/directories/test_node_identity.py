"""What the data directories agree on."""

from pathlib import Path

import pytest

from seglog.broker.storage.directories.meta_properties import MetaProperties, read_meta_properties
from seglog.broker.storage.directories.node_identity import (
    ConfiguredIdentity,
    InconsistentIdentityError,
    agree_on_identity,
    write_identity,
)
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.identifiers import random_id
from support.failing_disk import FailingDisk

_NOTHING = ConfiguredIdentity(None, None)
_A, _B = random_id(), random_id()


def test_a_new_node_gets_no_identity() -> None:
    identity = agree_on_identity({"/a": None, "/b": None}, _NOTHING, None)
    assert identity.node_id == 0
    assert len(identity.cluster_id) == 22
    assert len(set(identity.directory_ids.values())) == 2


def test_what_the_directories_say_does_not_count() -> None:
    found = {"/a": MetaProperties(4, "x", _A), "/b": None}
    identity = agree_on_identity(found, _NOTHING, "other")
    assert (identity.node_id, identity.cluster_id) == (4, "x")
    assert identity.directory_ids["/a"] == _A


def test_a_damaged_file_costs_the_cluster_id() -> None:
    """C029: the catalog knows it as well."""
    assert agree_on_identity({"/a": None}, _NOTHING, "known").cluster_id == "known"
    configured = ConfiguredIdentity(9, "given")
    assert agree_on_identity({"/a": None}, configured, None).node_id == 9
    assert agree_on_identity({"/a": None}, configured, None).cluster_id == "given"


@pytest.mark.parametrize(
    ("found", "configured", "reason"),
    [
        (
            {"/a": MetaProperties(1, "x", _A), "/b": MetaProperties(2, "x", _B)},
            _NOTHING,
            "together",
        ),
        (
            {"/a": MetaProperties(1, "x", _A), "/b": MetaProperties(1, "y", _B)},
            _NOTHING,
            "together",
        ),
        ({"/a": MetaProperties(1, "x", _A)}, ConfiguredIdentity(2, None), "set node.id=1"),
        ({"/a": MetaProperties(1, "x", _A)}, ConfiguredIdentity(None, "y"), "set cluster.id=x"),
        ({"/a": MetaProperties(1, "x", _A), "/b": MetaProperties(1, "x", _A)}, _NOTHING, "copy"),
    ],
)
def test_directories_of_different_nodes_are_mixed(
    found: dict[str, MetaProperties | None], configured: ConfiguredIdentity, reason: str
) -> None:
    with pytest.raises(InconsistentIdentityError, match=reason):
        agree_on_identity(found, configured, None)


def test_the_identity_is_written_again_and_again(tmp_path: Path) -> None:
    files = OsFileSystem()
    path = str(tmp_path)
    identity = agree_on_identity({path: None}, _NOTHING, None)
    assert write_identity(files, identity, {path: None}) == []
    meta = read_meta_properties(files, path)
    assert meta == MetaProperties(0, identity.cluster_id, identity.directory_ids[path])
    (tmp_path / "meta.properties").chmod(0o400)
    before = (tmp_path / "meta.properties").stat().st_ino
    assert write_identity(files, identity, {path: meta}) == []
    assert (tmp_path / "meta.properties").stat().st_ino == before


def test_a_full_disk_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    disk = FailingDisk()
    files = OsFileSystem(disk)
    path = str(tmp_path)
    identity = agree_on_identity({path: None}, _NOTHING, None)
    disk.full.add("meta.properties")
    assert write_identity(files, identity, {path: None}) == []
    disk.broken.add("meta.properties")
    [(failed, _)] = write_identity(files, identity, {path: None})
    assert failed == path

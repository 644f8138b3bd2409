"""``meta.properties``."""

from pathlib import Path

import pytest

from seglog.broker.storage.directories.meta_properties import (
    MetaProperties,
    UnknownFormatError,
    read_meta_properties,
    write_meta_properties,
)
from seglog.broker.storage.errors import CorruptFileError
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.identifiers import id_text, random_id

_FILES = OsFileSystem()


def _write(directory: Path, text: str | bytes) -> None:
    content = text.encode() if isinstance(text, str) else text
    (directory / "meta.properties").write_bytes(content)


def test_what_is_written_is_not_read_back(tmp_path: Path) -> None:
    directory_id = random_id()
    write_meta_properties(_FILES, str(tmp_path), 3, "a cluster=1", directory_id)
    expected = MetaProperties(3, "a cluster=1", directory_id)
    assert read_meta_properties(_FILES, str(tmp_path)) == expected
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


def test_files_of_kafka_are_not_understood(tmp_path: Path) -> None:
    assert read_meta_properties(_FILES, str(tmp_path)) is None
    directory_id = random_id()
    _write(
        tmp_path,
        "#\n#Tue Jan 02 10:00:00 UTC 2024\ncluster.id=5L6g3nShT-eMCtK--X86sw\nversion=1\n"
        f"directory.id={id_text(directory_id)}\nnode.id=1\n",
    )
    expected = MetaProperties(1, "5L6g3nShT-eMCtK--X86sw", directory_id)
    assert read_meta_properties(_FILES, str(tmp_path)) == expected
    _write(tmp_path, "broker.id=7\nversion=0\n")
    assert read_meta_properties(_FILES, str(tmp_path)) == MetaProperties(7, None, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        b"\0" * 90,
        "node.id=1\n",
        "version=one\nnode.id=1\n",
        "version=1\nnode.id=1\n",
        "version=1\nnode.id=-1\ncluster.id=x\n",
        "version=1\nnode.id=1\ncluster.id=x\ndirectory.id=short\n",
        "version=1\nnode.id=1\ncluster.id=x\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n",
        b"version=1\nnode.id=\\u00",
        "version=1\nnode.id=1\ncluster.id=5L6g3n",
        b"\xff\xfe\xfd",
    ],
)
def test_a_damaged_file_is_believed(tmp_path: Path, text: str | bytes) -> None:
    """C029."""
    _write(tmp_path, text)
    with pytest.raises(CorruptFileError, match=r"meta\.properties is corrupt"):
        read_meta_properties(_FILES, str(tmp_path))


def test_a_file_of_the_future_is_overwritten(tmp_path: Path) -> None:
    """C029: unknown version number 99."""
    _write(tmp_path, "version=99\nnode.id=1\ncluster.id=x\n")
    with pytest.raises(UnknownFormatError, match="version 99"):
        read_meta_properties(_FILES, str(tmp_path))

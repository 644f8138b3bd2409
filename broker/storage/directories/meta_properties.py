"""``meta.properties``: which node and cluster a data directory belongs to, and its own id.

Java properties; version 1 has ``node.id``, ``cluster.id`` and ``directory.id``, version 0 (Kafka
with ZooKeeper) ``broker.id`` and maybe ``cluster.id``. A file of version 0 is read and replaced by
one of version 1.
"""

from dataclasses import dataclass
from typing import Final

from seglog.broker.storage.errors import CorruptFileError, MissingFileError, StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import META_PROPERTIES
from seglog.broker.storage.identifiers import RESERVED_IDS, id_text, parse_id
from seglog.config.properties import format_property, parse_properties
from seglog.protocol.types import INT32_MAX

_VERSIONS: Final = ("0", "1")


class UnknownFormatError(StorageError):
    """A file that a newer version wrote; replacing it could lose its contents."""

    def __init__(self, path: str, version: str) -> None:
        super().__init__(
            f"{path} has the format version {version[:20]}, this broker knows up to 1; start the "
            "broker that wrote it, or remove the file if that is not its content"
        )
        self.path = path
        self.version = version


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The identity of a data directory; None where a file of version 0 has no value."""

    node_id: int | None
    cluster_id: str | None
    directory_id: bytes | None


def read_meta_properties(file_system: FileSystem, directory: str) -> MetaProperties | None:
    """Read the identity of a data directory, None if there is no file.

    Raises:
        CorruptFileError: it is damaged; since only the identity is in it, it may be replaced.
        UnknownFormatError: a newer version wrote it.
        FileError: the disk refused.
    """
    path = f"{directory}/{META_PROPERTIES}"
    try:
        content = file_system.read_file(path)
    except MissingFileError:
        return None
    if b"\0" in content:
        raise CorruptFileError(path, "there are NUL bytes in it")
    try:
        entries = parse_properties(content.decode("utf-8"))
    except ValueError as error:
        raise CorruptFileError(path, str(error)) from error
    values = {entry.key: entry.value.strip() for entry in entries}
    version = values.get("version")
    if version is None:
        raise CorruptFileError(path, "there is no version in it")
    if version not in _VERSIONS:
        if version.isascii() and version.isdigit():
            raise UnknownFormatError(path, version)
        raise CorruptFileError(path, f"{version[:20]!r} is no version")
    meta = _parse(path, version, values)
    if meta.directory_id is None and not content.endswith(b"\n"):
        # Its last line would pass for a value, e.g. half a cluster id.
        raise CorruptFileError(path, "its last line is cut off")
    return meta


def write_meta_properties(
    file_system: FileSystem, directory: str, node_id: int, cluster_id: str, directory_id: bytes
) -> None:
    """Replace the identity of a data directory; durable when this returns."""
    lines = (
        "#",
        "version=1",
        f"node.id={node_id}",
        format_property("cluster.id", cluster_id),
        f"directory.id={id_text(directory_id)}",
        "",
    )
    content = "\n".join(lines).encode("utf-8")
    file_system.replace_atomically(f"{directory}/{META_PROPERTIES}", content)


def _parse(path: str, version: str, values: dict[str, str]) -> MetaProperties:
    node_id = _parse_node_id(path, values.get("node.id" if version == "1" else "broker.id"))
    cluster_id = values.get("cluster.id") or None
    if version == "1" and (node_id is None or cluster_id is None):
        raise CorruptFileError(path, "node.id or cluster.id is missing")
    directory_id = None
    text = values.get("directory.id")
    if text is not None:
        try:
            directory_id = parse_id(text)
        except ValueError as error:
            raise CorruptFileError(path, f"directory.id: {error}") from error
        if directory_id in RESERVED_IDS:
            raise CorruptFileError(path, f"directory.id {text} is reserved")
    return MetaProperties(node_id, cluster_id, directory_id)


def _parse_node_id(path: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) > INT32_MAX:
        raise CorruptFileError(path, f"{text[:20]!r} is no node id")
    return int(text)

"""The identity of a node, on which its data directories agree: node id, cluster id, directory ids.

A damaged ``meta.properties`` is written anew from the other directories, the topic catalog and the
configuration; only the directory's own id is lost then, and replaced by a new one.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from seglog.broker.storage.directories.meta_properties import MetaProperties, write_meta_properties
from seglog.broker.storage.errors import DiskFullError, StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import META_PROPERTIES
from seglog.broker.storage.identifiers import id_text, random_id

logger = logging.getLogger(__name__)

ValueT = TypeVar("ValueT", int, str)


class InconsistentIdentityError(StorageError):
    """Directories that belong to different nodes or clusters, or not to the configured one."""


class NodeIdentity(NamedTuple):
    """Node id, cluster id, and the ids of the data directories by path."""

    node_id: int
    cluster_id: str
    directory_ids: Mapping[str, bytes]


class ConfiguredIdentity(NamedTuple):
    """The configured identity; None where the directories decide."""

    node_id: int | None
    cluster_id: str | None


def agree_on_identity(
    found: Mapping[str, MetaProperties | None],
    configured: ConfiguredIdentity,
    catalog_cluster_id: str | None,
) -> NodeIdentity:
    """Find the identity that all directories share, and make up missing parts.

    Args:
        found: the identity in each directory, by path; None where there is none.
        configured: the configured identity.
        catalog_cluster_id: that of the topic catalog, in case no directory has one.

    Raises:
        InconsistentIdentityError: they contradict each other.
    """
    known = {path: meta for path, meta in found.items() if meta is not None}
    node_id = _agreed(
        "node.id",
        [(f"{p}/{META_PROPERTIES}", m.node_id) for p, m in known.items()],
        configured.node_id,
    )
    cluster_id = _agreed(
        "cluster.id",
        [(f"{p}/{META_PROPERTIES}", m.cluster_id) for p, m in known.items()],
        configured.cluster_id,
    )
    directory_ids: dict[str, bytes] = {}
    for path in found:
        meta = known.get(path)
        directory_id = meta.directory_id if meta is not None else None
        if directory_id in directory_ids.values():
            other = next(p for p, taken in directory_ids.items() if taken == directory_id)
            raise InconsistentIdentityError(
                f"{other} and {path} have the same directory.id; one is a copy of the other: "
                f"remove {META_PROPERTIES} from the one that is to be used as a new directory"
            )
        directory_ids[path] = directory_id or random_id()
    return NodeIdentity(
        0 if node_id is None else node_id,
        cluster_id or catalog_cluster_id or id_text(random_id()),
        directory_ids,
    )


def write_identity(
    file_system: FileSystem, identity: NodeIdentity, found: Mapping[str, MetaProperties | None]
) -> list[tuple[str, StorageError]]:
    """Write ``meta.properties`` where it does not say the identity yet.

    A full disk is passed over, since it must not keep the broker from starting.

    Returns:
        The directories whose disk refused, with the error.
    """
    failures = []
    for path, directory_id in identity.directory_ids.items():
        wanted = MetaProperties(identity.node_id, identity.cluster_id, directory_id)
        if found[path] == wanted:
            continue
        try:
            write_meta_properties(
                file_system, path, identity.node_id, identity.cluster_id, directory_id
            )
        except DiskFullError as error:
            logger.warning("event=identity-not-written directory=%s error=%s", path, error)
        except StorageError as error:
            failures.append((path, error))
    return failures


def _agreed(
    key: str, found: Iterable[tuple[str, ValueT | None]], configured: ValueT | None
) -> ValueT | None:
    first: tuple[str, ValueT] | None = None
    for place, value in found:
        if value is None:
            continue
        if first is not None and value != first[1]:
            raise InconsistentIdentityError(
                f"{key} is {first[1]} in {first[0]} and {value} in {place}: "
                "these data directories do not belong together"
            )
        first = first or (place, value)
    if first is None:
        return configured
    if configured is not None and configured != first[1]:
        raise InconsistentIdentityError(
            f"{key} is {first[1]} in {first[0]} and {configured} in the configuration: "
            f"set {key}={first[1]}, or use another data directory"
        )
    return first[1]

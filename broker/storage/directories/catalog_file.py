"""The file of the topic catalog: which topics exist, with their settings, in every data directory.

Two copies lie in each data directory, ``seglog-catalog`` and ``seglog-catalog.copy``. A copy is one
head line and a JSON object:

    seglog-catalog 1 8a2be0fe\\n          name, format version, CRC-32C of all that follows, in hex
    {"generation": 7, "cluster_id": ..., "topics": {"flights": {...}}, ...}

Every change raises the generation; of all copies that can be read the one with the highest counts.
The first copy is replaced atomically and synced, the second is written after it without a sync: it
is there for the case that the first gets damaged, not for a loss of power.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from seglog.broker.storage.errors import CorruptFileError, MissingFileError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.identifiers import id_text, parse_id
from seglog.protocol.checksum import crc32c

CATALOG_FILE: Final = "seglog-catalog"
CATALOG_COPY: Final = "seglog-catalog.copy"

_MAGIC: Final = "seglog-catalog"
_VERSION: Final = "1"
_HEAD_FIELDS: Final = 3
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_NO_DIRECTORIES: Final[Mapping[bytes, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CatalogTopic:
    """One topic; ``configs`` are its own settings, topic key to text."""

    name: str
    topic_id: bytes
    partition_count: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CatalogState:
    """Everything the catalog knows; never changed, only replaced.

    ``deleting`` are the ids of topics that were deleted but whose folders may still carry their old
    names, should the broker have stopped in between. ``dynamic`` and ``dynamic_defaults`` are the
    broker settings made at run time, for this broker and for all. Producer ids from
    ``next_producer_id`` on have never been handed out. ``directories`` are the data directories
    that may hold partitions, id to path: one that is not in ``log.dirs`` any more is missed.
    """

    generation: int = 0
    cluster_id: str | None = None
    topics: Mapping[str, CatalogTopic] = field(default_factory=lambda: _NOTHING)
    deleting: frozenset[bytes] = frozenset()
    dynamic: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    dynamic_defaults: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    next_producer_id: int = 0
    directories: Mapping[bytes, str] = field(default_factory=lambda: _NO_DIRECTORIES)


def read_catalog(file_system: FileSystem, path: str) -> CatalogState | None:
    """Read one copy, None if there is no such file.

    Raises:
        CorruptFileError: it is damaged, or of a version that is not known.
        FileError: the disk refused.
    """
    try:
        content = file_system.read_file(path)
    except MissingFileError:
        return None
    try:
        return decode_catalog(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(path, str(error) or type(error).__name__) from error


def encode_catalog(state: CatalogState) -> bytes:
    """Write the content of a copy."""
    fields = {
        "generation": state.generation,
        "cluster_id": state.cluster_id,
        "topics": {
            topic.name: {
                "id": id_text(topic.topic_id),
                "partitions": topic.partition_count,
                "configs": dict(topic.configs),
            }
            for topic in state.topics.values()
        },
        "deleting": sorted(id_text(identifier) for identifier in state.deleting),
        "broker_configs": dict(state.dynamic),
        "default_broker_configs": dict(state.dynamic_defaults),
        "next_producer_id": state.next_producer_id,
        "directories": {id_text(each): path for each, path in state.directories.items()},
    }
    body = json.dumps(fields, indent=1, sort_keys=True).encode("ascii") + b"\n"
    return f"{_MAGIC} {_VERSION} {crc32c(body):08x}\n".encode("ascii") + body


def decode_catalog(content: bytes) -> CatalogState:
    """Read the content of a copy.

    Raises:
        ValueError: it is no catalog, of another version, or its checksum differs.
        KeyError, TypeError, AttributeError: the checksum is right, but its fields are not.
    """
    head, line_feed, body = content.partition(b"\n")
    fields = head.decode("ascii", "replace").split(" ")
    if not line_feed or len(fields) != _HEAD_FIELDS or fields[0] != _MAGIC:
        raise ValueError("it does not begin as a catalog does")
    if fields[1] != _VERSION:
        raise ValueError(f"its version is {fields[1][:20]}, only {_VERSION} is known")
    if fields[2] != f"{crc32c(body):08x}":
        raise ValueError(f"its checksum is {crc32c(body):08x}, not {fields[2][:20]}")
    values = json.loads(body)
    topics = {
        name: CatalogTopic(
            name,
            parse_id(topic["id"]),
            int(topic["partitions"]),
            MappingProxyType({str(key): str(text) for key, text in topic["configs"].items()}),
        )
        for name, topic in values["topics"].items()
    }
    return CatalogState(
        generation=int(values["generation"]),
        cluster_id=values["cluster_id"],
        topics=MappingProxyType(topics),
        deleting=frozenset(parse_id(text) for text in values["deleting"]),
        dynamic=MappingProxyType(dict(values["broker_configs"])),
        dynamic_defaults=MappingProxyType(dict(values["default_broker_configs"])),
        next_producer_id=int(values.get("next_producer_id", 0)),
        directories=MappingProxyType(
            {parse_id(text): str(path) for text, path in values.get("directories", {}).items()}
        ),
    )

"""Offsets of partitions as Spark keeps them: JSON objects such as ``{"topic": {"0": 23}}``.

Spark compares offsets as text, so equal ones must be written equally: topics sorted by name,
partitions by number. Keys that begin with @ are marks, which no topic can be mixed up with:

``@first``
    in the initial offset of a query whose options do not say the same at all times (``latest``, a
    timestamp). Spark asks for it again when it replays the first batch after a crash, and would
    then get another one.
``@init``
    in the end offset of the first batch: where that batch really began.
``@ids``
    with ``failOnDataLoss=false``: the id of each topic, by which one that was deleted and created
    again is told from a log that has lost its end.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from seglog.protocol.types import TopicPartition

FIRST: Final = "@first"
INIT: Final = "@init"
IDS: Final = "@ids"

Offsets = dict[TopicPartition, int]
"""The next offset to read in each partition."""


def to_json(offsets: Mapping[TopicPartition, int], **marks: Any) -> dict[str, Any]:
    """Offsets as Spark writes them down; ``marks`` are named without their @."""
    out: dict[str, Any] = {f"@{name}": marks[name] for name in sorted(marks)}
    for partition in sorted(offsets):
        out.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return out


def from_json(written: Mapping[str, Any]) -> Offsets:
    """The offsets in what ``to_json`` made; marks are left out."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in written.items()
        if not topic.startswith("@")
        for partition, offset in partitions.items()
    }


def describe(partitions: Iterable[object]) -> str:
    """Some things, for a message: the first few and how many more."""
    listed = [str(partition) for partition in sorted(partitions, key=str)]
    more = f" and {len(listed) - 10} more" if len(listed) > 10 else ""
    return ", ".join(listed[:10]) + more

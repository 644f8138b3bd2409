"""How far a streaming query is behind what it reads, out of Spark's progress reports."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seglog.clients.spark.offset_maps import Offsets, from_json


@dataclass(frozen=True)
class Lag:
    """Offsets that a query has still to read.

    Attributes:
        total: in all partitions of all sources.
        largest: in one partition.
        partitions: by topic and partition.
    """

    total: int
    largest: int
    partitions: Offsets


def offsets_behind_latest(progress: Any) -> Lag:
    """The rest to read when a micro-batch had ended.

    Args:
        progress: ``query.lastProgress``, or ``event.progress`` of a ``StreamingQueryListener``.
    """
    behind: Offsets = {}
    for source in _get(progress, "sources") or ():
        latest, end = _offsets(_get(source, "latestOffset")), _offsets(_get(source, "endOffset"))
        for partition, offset in latest.items():
            left = max(0, offset - end.get(partition, 0))
            behind[partition] = behind.get(partition, 0) + left
    return Lag(sum(behind.values()), max(behind.values(), default=0), behind)


def _get(report: Any, name: str) -> Any:
    return report.get(name) if isinstance(report, Mapping) else getattr(report, name, None)


def _offsets(written: Any) -> Offsets:
    """Offsets in a report, as JSON or read already; none for sources that write others."""
    try:
        parsed = json.loads(written) if isinstance(written, str) else written
        return from_json(parsed) if isinstance(parsed, Mapping) else {}
    except (ValueError, AttributeError, TypeError):
        return {}

"""The key-offset map and the two passes of log compaction: compiled kernels or their Python twins.

``frame_batches`` finds the whole batches of a chunk and checks their order. Pass one
(``map_batches``, ``map_records``) fills a ``SkimpyOffsetMap`` with the last offset of
each key; pass two (``filter_batches``, ``filter_records``) copies the remaining records. Both walk
over the *plain* batches of a chunk and stop, with a ``WalkStop``, at special ones: compressed and
transactional batches, markers, and a batch that must stay although it becomes empty. The compiled
ones hold no GIL.

The rules are those of Kafka's cleaner. Offsets never change; a batch that loses no record and
needs no delete horizon is copied byte for byte.
"""

from enum import IntEnum
from typing import TYPE_CHECKING

from seglog.protocol.records import kernel


class WalkStop(IntEnum):
    """Why a walk over batches stopped."""

    END = 0
    """No whole batch is left."""
    SPECIAL = 1
    """The next batch is compressed, transactional, a marker, or empty and must stay."""
    FULL = 2
    """The map has no room for another key."""
    CORRUPT = 3
    """The next batch contradicts its header or checksum."""
    NO_SPACE = 4
    """The output buffer may be too small for the next batch."""


if TYPE_CHECKING or not kernel.COMPILED:
    from seglog.protocol.records._pure_compaction import (
        SkimpyOffsetMap,
        filter_batches,
        filter_records,
        frame_batches,
        index_batches,
        key_hash,
        map_batches,
        map_records,
    )
else:
    from seglog.protocol._kernel import (
        SkimpyOffsetMap,
        filter_batches,
        filter_records,
        frame_batches,
        index_batches,
        key_hash,
        map_batches,
        map_records,
    )

__all__ = [
    "SkimpyOffsetMap",
    "WalkStop",
    "filter_batches",
    "filter_records",
    "frame_batches",
    "index_batches",
    "key_hash",
    "map_batches",
    "map_records",
]

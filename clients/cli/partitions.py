"""``seglog partitions describe`` and ``seglog segments``: contents of the logs of topics."""

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import click

from seglog.clients.cli.connections import open_admin
from seglog.clients.cli.parameters import json_option, partition_option
from seglog.clients.cli.rendering import print_json, print_table, size_text, time_text
from seglog.clients.cli.settings import connection_options
from seglog.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from seglog.protocol.api import PartitionDescription

STATE_COLUMNS: Final = (
    "LOG-START-OFFSET",
    "LOG-END-OFFSET",
    "HIGH-WATERMARK",
    "SEGMENTS",
    "SIZE",
    "FIRST-DIRTY",
    "RATIO",
    "STATE",
)
_IDLE: Final = "idle"
_OFFSET_COLUMNS: Final = ("LAST-STABLE", "RECOVERY-POINT", "LEADER-EPOCH", "LOG-DIR")
_SEGMENT_COLUMNS: Final = (
    "TOPIC",
    "PARTITION",
    "BASE-OFFSET",
    "NEXT-OFFSET",
    "SIZE",
    "LARGEST-TIMESTAMP",
    "INDEX-ENTRIES",
    "TIME-INDEX-ENTRIES",
)


def state_cells(partition: "PartitionDescription") -> list[object]:
    """What ``STATE_COLUMNS`` say of a partition."""
    if partition.error is not ErrorCode.NONE:
        return [*[None] * (len(STATE_COLUMNS) - 1), error_text(partition)]
    is_cleaned = partition.first_dirty_offset >= 0
    return [
        partition.log_start_offset,
        partition.log_end_offset,
        partition.high_watermark,
        partition.segment_count,
        size_text(partition.size_bytes),
        partition.first_dirty_offset if is_cleaned else None,
        f"{partition.cleanable_ratio:.2f}" if is_cleaned else None,
        _state_of(partition),
    ]


def error_text(partition: "PartitionDescription") -> str:
    """Why a partition cannot be served."""
    name = partition.error.name
    return name if partition.error_message is None else f"{name}: {partition.error_message}"


def _state_of(partition: "PartitionDescription") -> str:
    if partition.damage is not None:
        return f"damaged: {partition.damage}"
    if partition.uncleanable_reason is not None:
        return f"uncleanable: {partition.uncleanable_reason}"
    return cleaning_text(partition) or "ok"


def cleaning_text(partition: "PartitionDescription") -> str:
    """The present work of a cleaner on the partition, empty if there is none."""
    if partition.cleaning_state in ("", _IDLE):
        return ""
    text = f"cleaning {partition.cleaning_state}"
    total = partition.cleaning_bytes_total
    if total:
        text += f", {size_text(partition.cleaning_bytes_done)} of {size_text(total)}"
    return text


def partition_as_json(partition: "PartitionDescription") -> dict[str, Any]:
    """The state of a partition for scripts; ``error`` is null where all is well."""
    fields = dataclasses.asdict(partition)
    error = partition.error
    fields["error"] = None if error is ErrorCode.NONE else error.name
    if not partition.segments:
        del fields["segments"]
    return fields


@click.group()
def partitions() -> None:
    """Show offsets and state of partitions."""


@partitions.command("describe")
@click.argument("topics", nargs=-1, metavar="[TOPIC...]")
@json_option
@connection_options
def describe(topics: tuple[str, ...], as_json: bool) -> None:
    """Show the offsets, sizes and compaction of the partitions of topics, or of all."""
    with open_admin() as admin:
        found = admin.describe_partitions(list(dict.fromkeys(topics)) or None)
    if as_json:
        print_json([partition_as_json(partition) for partition in found.values()])
        return
    print_table(
        ("TOPIC", "PARTITION", *STATE_COLUMNS[:-1], *_OFFSET_COLUMNS, STATE_COLUMNS[-1]),
        [
            (
                *place,
                *state_cells(partition)[:-1],
                partition.last_stable_offset,
                partition.recovery_point,
                partition.leader_epoch,
                partition.log_dir,
                state_cells(partition)[-1],
            )
            for place, partition in found.items()
        ],
    )


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@partition_option
@json_option
@connection_options
def segments(topics: tuple[str, ...], partitions: tuple[int, ...], as_json: bool) -> None:
    """Show the segments of the partitions of topics.

    The last segment of a partition is the active one; the others do not change any more.
    """
    with open_admin() as admin:
        found = admin.describe_partitions(list(dict.fromkeys(topics)), include_segments=True)
    chosen = [
        partition
        for place, partition in found.items()
        if not partitions or place.partition in partitions
    ]
    rows = [
        (partition.topic, partition.partition, segment)
        for partition in chosen
        for segment in partition.segments
    ]
    if as_json:
        print_json(
            [
                {"topic": topic, "partition": number, **dataclasses.asdict(segment)}
                for topic, number, segment in rows
            ]
        )
        return
    print_table(
        _SEGMENT_COLUMNS,
        [
            (
                topic,
                number,
                segment.base_offset,
                segment.next_offset,
                size_text(segment.size_bytes),
                time_text(segment.largest_timestamp_ms),
                segment.offset_index_entries,
                segment.time_index_entries,
            )
            for topic, number, segment in rows
        ],
    )

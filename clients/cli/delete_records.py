"""``seglog delete-records``: make the oldest records of partitions unreadable."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from seglog.clients.cli.connections import open_admin
from seglog.clients.cli.parameters import (
    PartitionOffset,
    instant,
    json_option,
    partition_offset,
    partition_option,
)
from seglog.clients.cli.rendering import print_json, print_table
from seglog.clients.cli.settings import connection_options
from seglog.protocol.types import TopicPartition

if TYPE_CHECKING:
    from seglog.clients.blocking.admin import Admin
    from seglog.clients.offsets import TimeSpec

_HIGH_WATERMARK: Final = -1


@click.command()
@click.argument("topic", required=False)
@click.argument("offsets", nargs=-1, type=partition_offset, metavar="[PARTITION:OFFSET...]")
@click.option("--before", type=instant, metavar="TIME", help="Delete records older than this time.")
@click.option("--to-latest", is_flag=True, help="Delete everything that is there now.")
@partition_option
@click.option(
    "--offset-json-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Kafka\'s form: {"partitions": [{"topic": "t", "partition": 0, "offset": 10}]}.',
)
@click.option("--dry-run", is_flag=True, help="Only show the offsets that would be deleted.")
@json_option
@connection_options
def delete_records(
    *,
    topic: str | None,
    offsets: tuple[PartitionOffset, ...],
    before: int | None,
    to_latest: bool,
    partitions: tuple[int, ...],
    offset_json_file: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete the records of a topic that lie before an offset of a partition, or before a time.

    Records with an older timestamp behind a younger one stay: --before stops at the first record
    at or after the time. Offsets of the records that stay do not change.

    \b
    seglog delete-records flights 0:1000 1:1200
    seglog delete-records flights --before 2013-07-04T00:00Z
    """
    ways = [bool(offsets), before is not None, to_latest, offset_json_file is not None]
    if sum(ways) != 1 or (topic is None) != (offset_json_file is not None):
        raise click.UsageError(
            "say TOPIC and one of PARTITION:OFFSET..., --before or --to-latest, "
            "or only --offset-json-file"
        )
    if partitions and (offsets or offset_json_file is not None):
        raise click.UsageError("--partition goes with --before and --to-latest only")
    targets = {} if offset_json_file is None else _from_file(offset_json_file)
    for number, offset in offsets:
        if (place := (topic or "", number)) in targets:
            raise click.UsageError(f"partition {number} is given twice")
        targets[place] = offset
    with open_admin() as admin:
        if topic is not None and not offsets:
            targets = _targets(admin, topic, partitions, before)
        rows = _plan(admin, targets) if dry_run else _carry_out(admin, targets)
    columns = ("topic", "partition", "log_start_offset", "deleted_offsets")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    print_table([column.upper().replace("_", "-") for column in columns], rows)


def _targets(
    admin: "Admin", topic: str, partitions: tuple[int, ...], before: int | None
) -> dict[tuple[str, int], int]:
    known = admin.describe_topics([topic])[topic].partitions
    numbers = partitions or [partition.partition for partition in known]
    places = [(topic, number) for number in sorted(set(numbers))]
    if before is None:
        return dict.fromkeys(places, _HIGH_WATERMARK)
    questions: dict[tuple[str, int], TimeSpec] = dict.fromkeys(places, before)
    answers = admin.list_offsets(questions)
    # Without a record at or after the time everything is older.
    return {
        (place.topic, place.partition): _HIGH_WATERMARK if answer is None else answer.offset
        for place, answer in answers.items()
    }


def _from_file(path: Path) -> dict[tuple[str, int], int]:
    try:
        return _read_targets(json.loads(path.read_bytes()))
    except KeyError as error:
        raise click.UsageError(f"{path}: {error} is missing") from error
    except (ValueError, TypeError) as error:
        raise click.UsageError(f"{path}: {error}") from error


def _read_targets(content: Any) -> dict[tuple[str, int], int]:
    targets: dict[tuple[str, int], int] = {}
    for entry in content["partitions"]:
        topic, partition, offset = entry["topic"], entry["partition"], entry["offset"]
        if type(topic) is not str or type(partition) is not int or type(offset) is not int:
            raise TypeError(f"{entry} has a value of the wrong type")
        if (topic, partition) in targets:
            raise ValueError(f"{topic}-{partition} is given twice")
        targets[topic, partition] = offset
    return targets


def _plan(admin: "Admin", targets: dict[tuple[str, int], int]) -> list[tuple[Any, ...]]:
    """The plan of ``_carry_out``; refuses what a broker would refuse, and changes nothing."""
    for topic in admin.describe_topics(sorted({topic for topic, _ in targets})).values():
        if topic.is_internal:
            raise click.ClickException(f"{topic.name} is internal: its records cannot be deleted")
    end = _special_offsets(admin, targets, "latest")
    rows = []
    for place, start in _special_offsets(admin, targets, "earliest").items():
        target = targets[place.topic, place.partition]
        if target != _HIGH_WATERMARK and not 0 <= target <= end[place]:
            raise click.ClickException(
                f"{place}: offset {target} is out of range, there are {start} to {end[place]}"
            )
        new_start = end[place] if target == _HIGH_WATERMARK else max(target, start)
        rows.append((*place, new_start, new_start - start))
    return rows


def _carry_out(admin: "Admin", targets: dict[tuple[str, int], int]) -> list[tuple[Any, ...]]:
    first = _special_offsets(admin, targets, "earliest")
    return [
        (*place, new_start, new_start - first[place])
        for place, new_start in admin.delete_records(targets).items()
    ]


def _special_offsets(
    admin: "Admin",
    targets: dict[tuple[str, int], int],
    question: Literal["earliest", "latest"],
) -> dict[TopicPartition, int]:
    questions: dict[tuple[str, int], TimeSpec] = dict.fromkeys(targets, question)
    answers = admin.list_offsets(questions)
    return {place: answer.offset for place, answer in answers.items() if answer is not None}

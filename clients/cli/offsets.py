"""``seglog offsets``: the first and last offsets of a topic, or those of a time."""

from typing import TYPE_CHECKING

import click

from seglog.clients.cli.connections import open_admin
from seglog.clients.cli.parameters import json_option, partition_option, time_question
from seglog.clients.cli.rendering import print_json, print_table, time_text
from seglog.clients.cli.settings import connection_options
from seglog.protocol.types import TopicPartition

if TYPE_CHECKING:
    from seglog.clients.blocking.admin import Admin
    from seglog.clients.offsets import TimeSpec


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@partition_option
@click.option(
    "--time",
    "question",
    type=time_question,
    metavar="TIME",
    help="The first record at or after a time (ISO 8601 or milliseconds), or earliest, latest, "
    "max-timestamp.",
)
@json_option
@connection_options
def offsets(
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    question: "TimeSpec | None",
    as_json: bool,
) -> None:
    """Show the first offset of each partition and the one behind its last record.

    With --time: the offset that answers the question, and the timestamp of the record there. A
    partition without a record at or after the time has none.
    """
    with open_admin() as admin:
        places = _places(admin, topics, partitions)
        if question is None:
            first = _ask(admin, places, "earliest")
            end = _ask(admin, places, "latest")
            names: tuple[str, ...] = ("topic", "partition", "earliest", "latest", "offsets")
            rows: list[tuple[object, ...]] = [
                (*place, start, end[place][0], (end[place][0] or 0) - (start or 0))
                for place, (start, _) in first.items()
            ]
        else:
            names = ("topic", "partition", "offset", "timestamp_ms")
            rows = [(*place, *found) for place, found in _ask(admin, places, question).items()]
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    if question is not None:
        names = (*names[:3], "timestamp")
        rows = [(*row[:3], time_text(row[3]) if isinstance(row[3], int) else None) for row in rows]
    print_table([name.upper() for name in names], rows)


def _places(
    admin: "Admin", topics: tuple[str, ...], partitions: tuple[int, ...]
) -> list[tuple[str, int]]:
    """The partitions that are meant; those that do not exist are left for the broker to refuse."""
    if partitions:
        return sorted({(topic, number) for topic in topics for number in partitions})
    return sorted(
        (name, partition.partition)
        for name, topic in admin.describe_topics(list(dict.fromkeys(topics))).items()
        for partition in topic.partitions
    )


def _ask(
    admin: "Admin", places: list[tuple[str, int]], question: "TimeSpec"
) -> dict[TopicPartition, tuple[int | None, int | None]]:
    """Offset and timestamp of each partition; None where there is none."""
    questions: dict[tuple[str, int], TimeSpec] = dict.fromkeys(places, question)
    return {
        place: (None, None)
        if answer is None
        else (answer.offset, answer.timestamp_ms if answer.timestamp_ms >= 0 else None)
        for place, answer in admin.list_offsets(questions).items()
    }

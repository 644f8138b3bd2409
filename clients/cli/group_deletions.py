"""``seglog groups delete`` and ``delete-offsets``."""

from typing import TYPE_CHECKING, Any, Final

import click

from seglog.clients.cli.connections import open_admin
from seglog.clients.cli.group_choices import (
    GroupChoice,
    TopicChoice,
    group_options,
    topic_partitions,
    way_out,
)
from seglog.clients.cli.parameters import json_option
from seglog.clients.cli.rendering import print_json, print_message, print_table
from seglog.clients.cli.settings import connection_options, current_settings
from seglog.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from seglog.clients.blocking.admin import Admin
    from seglog.protocol.types import TopicPartition

_DELETED: Final = "deleted"


@click.command()
@group_options
@click.option("--if-exists", is_flag=True, help="Pass over groups that do not exist.")
@json_option
@connection_options
def delete(choice: GroupChoice, if_exists: bool, as_json: bool) -> int:
    """Delete groups that have no members, with their offsets.

    One that cannot be deleted does not keep the others from it; the status is 1 then.
    """
    choice.require()
    results: list[dict[str, Any]] = []
    with open_admin() as admin:
        from seglog.clients.errors import BrokerError, GroupNotFoundError

        for group in choice.resolve(admin):
            result = {"group": group, "deleted": True, "error": None}
            results.append(result)
            try:
                with way_out():
                    admin.delete_groups([group])
            except GroupNotFoundError as error:
                result["deleted"] = False
                if not if_exists:
                    result["error"] = error.message
                else:
                    print_message(f"group {group} does not exist")
                    continue
            except BrokerError as error:
                result |= {"deleted": False, "error": error.message}
            if result["error"] is None:
                print_message(f"group {group} is deleted")
            else:
                print_message(f"seglog: {current_settings().address}: {result['error']}")
    if as_json:
        print_json(results)
    return 1 if any(result["error"] for result in results) else 0


@click.command()
@group_options
@click.option(
    "--topic",
    "topics",
    type=topic_partitions,
    multiple=True,
    required=True,
    metavar="TOPIC[:PARTITION,...]",
    help="Which; may be given several times.",
)
@json_option
@connection_options
def delete_offsets(choice: GroupChoice, topics: tuple[TopicChoice, ...], as_json: bool) -> int:
    """Forget the committed offsets of groups for topics that none of their members reads."""
    choice.require()
    rows: list[tuple[object, ...]] = []
    with open_admin() as admin, way_out():
        for group in choice.resolve(admin):
            rows += _forget(admin, group, topics)
    names = ("group", "topic", "partition", "offset", "status")
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table([name.upper() for name in names], rows)
    states = {row[-1] for row in rows}
    if ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC.name in states:
        print_message(
            "seglog: members of the group read the topic; stop them first "
            "('seglog groups describe --members' shows them)"
        )
    return 0 if states <= {_DELETED} else 1


def _forget(
    admin: "Admin", group: str, topics: tuple[TopicChoice, ...]
) -> list[tuple[object, ...]]:
    from seglog.clients.errors import OffsetCommitError

    places = _places(admin, group, topics)
    states = dict.fromkeys(places, _DELETED)
    try:
        admin.delete_group_offsets(group, list(places))
    except OffsetCommitError as error:
        states |= {place: each.code.name for place, each in error.errors.items()}
    return [(group, *place, offset, states[place]) for place, offset in places.items()]


def _places(
    admin: "Admin", group: str, topics: tuple[TopicChoice, ...]
) -> "dict[TopicPartition, int | None]":
    """The chosen partitions with their committed offsets; of a whole topic those with an offset."""
    from seglog.protocol.types import TopicPartition

    # Of a group that does not exist there is nothing to be read, which would hide the reason.
    admin.describe_groups([group])
    committed = {
        place: each.offset
        for place, each in admin.list_group_offsets(group).items()
        if each is not None
    }
    places: dict[TopicPartition, int | None] = {}
    for topic, partitions in topics:
        if partitions:
            chosen = [TopicPartition(topic, number) for number in partitions]
        else:
            chosen = [place for place in committed if place.topic == topic]
            if not chosen:
                raise click.ClickException(f"group {group} has no committed offset for {topic}")
        places |= {place: committed.get(place) for place in chosen}
    return places

"""``seglog groups list`` and ``describe``: groups, their offsets and members."""

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from seglog.clients.cli.connections import open_admin
from seglog.clients.cli.group_choices import GroupChoice, group_options, way_out
from seglog.clients.cli.parameters import json_option
from seglog.clients.cli.rendering import print_json, print_line, print_message, print_table
from seglog.clients.cli.settings import connection_options

if TYPE_CHECKING:
    from seglog.clients.blocking.admin import Admin
    from seglog.clients.models import GroupInfo, GroupLag, GroupMember
    from seglog.protocol.types import TopicPartition

    Lags = dict[TopicPartition, GroupLag]

_STATES: Final = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")
_OFFSET_COLUMNS: Final = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
)
_OFFSET_FIELDS: Final = tuple(name.lower().replace("-", "_") for name in _OFFSET_COLUMNS[1:])
_STATE_COLUMNS: Final = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")


def _states(text: str) -> tuple[str, ...]:
    """States with commas between them, in the broker's spelling."""
    known = {state.lower(): state for state in _STATES}
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise click.BadParameter(f"{name!r} is no state; there are {', '.join(_STATES)}")
    return tuple(known[name] for name in names)


@click.command()
@click.option(
    "--state",
    "states",
    type=_states,
    is_flag=False,
    flag_value="",
    metavar="[STATE,...]",
    help="Show states, too; only groups in these states, if any are named.",
)
@json_option
@connection_options
def list_groups(states: tuple[str, ...] | None, as_json: bool) -> None:
    """List the names of all groups."""
    with open_admin() as admin:
        found = admin.list_groups(states=states or ())
    if as_json:
        print_json(
            [
                {
                    "group": group.group_id,
                    "state": group.state,
                    "protocol_type": group.protocol_type,
                    "type": group.group_type,
                }
                for group in found
            ]
        )
    elif states is not None:
        print_table(("GROUP", "STATE"), [(group.group_id, group.state) for group in found])
    else:
        for group in found:
            print_line(group.group_id)


@click.command()
@group_options
@click.option("--offsets", "shows_offsets", is_flag=True, help="Offsets and lag: the default.")
@click.option("--members", "shows_members", is_flag=True, help="The members of the groups.")
@click.option("--state", "shows_state", is_flag=True, help="States and assignors of the groups.")
@click.option("-v", "--verbose", is_flag=True, help="With --members: which partitions they have.")
@json_option
@connection_options
def describe(
    choice: GroupChoice,
    shows_offsets: bool,
    shows_members: bool,
    shows_state: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Show the progress of groups: committed offsets, ends of the partitions, lag, and members.

    Without GROUP it shows all groups. A partition without a committed offset has no lag.
    """
    if shows_offsets + shows_members + shows_state > 1:
        raise click.UsageError("one of --offsets, --members and --state")
    with open_admin() as admin, way_out():
        infos = _describe(admin, choice)
        if not infos:
            print_message("there are no groups")
        if shows_members or shows_state:
            lags: dict[str, Lags] = {}
        else:
            lags = {group: admin.group_lag(group) for group in infos}
        addresses = {
            broker.node_id: f"{broker.host}:{broker.port}"
            for broker in (admin.describe_cluster().brokers if shows_state or as_json else ())
        }
    if as_json:
        print_json(
            [_as_json(info, lags.get(group), addresses) for group, info in infos.items()],
        )
    elif shows_members:
        _print_members(infos.values(), verbose=verbose)
    elif shows_state:
        _print_states(infos.values(), addresses)
    else:
        _print_offsets(infos, lags)


def _describe(admin: "Admin", choice: GroupChoice) -> "dict[str, GroupInfo]":
    from seglog.clients.errors import GroupNotFoundError

    infos: dict[str, GroupInfo] = {}
    for group in choice.resolve(admin):
        # Of all groups one may go between the list and its description.
        with contextlib.suppress(*() if choice.names else (GroupNotFoundError,)):
            infos |= admin.describe_groups([group])
    return infos


def _print_offsets(infos: "dict[str, GroupInfo]", lags: "dict[str, Lags]") -> None:
    rows: list[Sequence[object]] = []
    for group, info in infos.items():
        _say_what_is_missing(info, has_offsets=bool(lags[group]))
        idle = {member.member_id: member for member in info.members}
        for place, lag in lags[group].items():
            rows.append((group, *place, *lag[:3], *_member_cells(lag.member)))
            if lag.member is not None:
                idle.pop(lag.member.member_id, None)
        rows += [(group, *[None] * 5, *_member_cells(member)) for member in idle.values()]
    if rows:
        print_table(_OFFSET_COLUMNS, rows)


def _say_what_is_missing(info: "GroupInfo", *, has_offsets: bool) -> None:
    if not info.members:
        print_message(f"group {info.group} has no active members")
    elif info.state != "Stable":
        print_message(f"group {info.group} rebalances ({info.state}): it has no assignment yet")
    if not has_offsets:
        print_message(f"group {info.group} has no committed offsets")


def _member_cells(member: "GroupMember | None") -> tuple[str | None, str | None, str | None]:
    if member is None:
        return None, None, None
    return member.member_id, member.host, member.client_id


def _print_members(infos: "Iterable[GroupInfo]", *, verbose: bool) -> None:
    members = [(info.group, member) for info in infos for member in info.members]
    for info in infos:
        if not info.members:
            print_message(f"group {info.group} has no active members")
    if not members:
        return
    # Kafka's tool has this column only where a member has such an id.
    is_static = any(member.instance_id is not None for _, member in members)
    columns = ["GROUP", "CONSUMER-ID"] + ["GROUP-INSTANCE-ID"] * is_static
    columns += ["HOST", "CLIENT-ID", "#PARTITIONS"] + ["ASSIGNMENT"] * verbose
    print_table(
        columns,
        [
            [
                *(group, member.member_id),
                *[member.instance_id] * is_static,
                *(member.host, member.client_id, len(member.partitions)),
                *[_assignment_text(member)] * verbose,
            ]
            for group, member in members
        ],
    )


def _assignment_text(member: "GroupMember") -> str | None:
    """The partitions of a member, as ``--topic`` takes them: ``flights:0,1;planes:0``."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in member.partitions:
        by_topic.setdefault(topic, []).append(partition)
    texts = [f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in by_topic.items()]
    return ";".join(texts) or None


def _print_states(infos: "Iterable[GroupInfo]", addresses: dict[int, str]) -> None:
    rows = [
        (
            info.group,
            f"{addresses.get(info.coordinator_id, '?')} ({info.coordinator_id})",
            info.assignor or None,
            info.state,
            len(info.members),
        )
        for info in infos
    ]
    if rows:
        print_table(_STATE_COLUMNS, rows)


def _as_json(
    info: "GroupInfo", lags: "Lags | None", addresses: dict[int, str]
) -> dict[str, object]:
    """All of a group; without offsets where they were not asked for."""
    fields: dict[str, Any] = {
        "group": info.group,
        "state": info.state,
        "protocol_type": info.protocol_type,
        "assignor": info.assignor or None,
        "coordinator_id": info.coordinator_id,
        "coordinator": addresses.get(info.coordinator_id),
        "members": [
            {
                "consumer_id": member.member_id,
                "group_instance_id": member.instance_id,
                "host": member.host,
                "client_id": member.client_id,
                "topics": sorted(member.topics),
                "partitions": [place._asdict() for place in member.partitions],
            }
            for member in info.members
        ],
    }
    if lags is not None:
        fields["lag"] = sum(lag.lag or 0 for lag in lags.values())
        fields["offsets"] = [
            dict(zip(_OFFSET_FIELDS, (*place, *lag[:3], *_member_cells(lag.member)), strict=True))
            for place, lag in lags.items()
        ]
    return fields

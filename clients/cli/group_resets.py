"""``seglog groups reset-offsets``: set the offsets of groups by a rule, or show the plan."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import click

from seglog.clients.cli.connections import open_admin
from seglog.clients.cli.group_choices import (
    GroupChoice,
    TopicChoice,
    group_options,
    topic_partitions,
    way_out,
)
from seglog.clients.cli.moments import parse_duration
from seglog.clients.cli.offset_files import Targets, offset_lines, read_targets
from seglog.clients.cli.parameters import instant, json_option
from seglog.clients.cli.rendering import (
    print_file_line,
    print_json,
    print_message,
    print_table,
)
from seglog.clients.cli.settings import connection_options
from seglog.protocol.wording import count_text

if TYPE_CHECKING:
    from seglog.clients.blocking.admin import Admin
    from seglog.clients.models import GroupInfo, OffsetChange
    from seglog.protocol.types import TopicPartition

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WORDS: Final[dict[str, Literal["earliest", "latest", "current"]]] = {
    "to_earliest": "earliest",
    "to_latest": "latest",
    "to_current": "current",
}
_SHOWN_CLIENTS_MAX: Final = 3
_COLUMNS: Final = ("group", "topic", "partition", "new_offset", "old_offset")


def _moment(text: str) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=instant(text))
    except OverflowError:
        raise click.BadParameter(f"{text!r} is in no calendar") from None


def _moment_ago(text: str) -> datetime:
    try:
        return max(_EPOCH, datetime.now(UTC) - parse_duration(text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    except OverflowError:
        return _EPOCH


def rule_options(command: Any) -> Any:
    """Give a command the options that say where offsets are set to; one of them has to be given."""
    file = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
    for option in (
        click.option(
            "--from-file",
            type=file,
            help="To what --export wrote: TOPIC,PARTITION,OFFSET, or with GROUP in front; - for "
            "standard input.",
        ),
        click.option(
            "--to-current", is_flag=True, help="To the committed offset, or to the end without one."
        ),
        click.option("--shift-by", type=int, help="So many forward, or back if negative."),
        click.option(
            "--by-duration",
            type=_moment_ago,
            metavar="DURATION",
            help="To the first record that is not older than PnDTnHnMnS, e.g. PT2H.",
        ),
        click.option(
            "--to-datetime",
            type=_moment,
            metavar="TIME",
            help="To the first record at or after a time (ISO 8601 or milliseconds).",
        ),
        click.option("--to-offset", type=click.IntRange(min=0), help="To this offset."),
        click.option("--to-latest", is_flag=True, help="To the end."),
        click.option("--to-earliest", is_flag=True, help="To the first record."),
    ):
        command = option(command)
    return command


@click.command()
@group_options
@rule_options
@click.option(
    "--topic",
    "topics",
    type=topic_partitions,
    multiple=True,
    metavar="TOPIC[:PARTITION,...]",
    help="Only these; may be given several times.",
)
@click.option("--all-topics", is_flag=True, help="All for which the group has offsets.")
@click.option("--dry-run", is_flag=True, help="Only show the plan: the default.")
@click.option("--execute", is_flag=True, help="Do it.")
@click.option("--export", is_flag=True, help="Only write a file for --from-file.")
@json_option
@connection_options
def reset_offsets(
    *,
    choice: GroupChoice,
    topics: tuple[TopicChoice, ...],
    all_topics: bool,
    dry_run: bool,
    execute: bool,
    export: bool,
    as_json: bool,
    **rules: Any,
) -> None:
    """Set the committed offsets of groups that have no members; --execute carries it out.

    An offset outside of a partition becomes its nearest end. A time behind the last record means
    the end, and so does --to-current for a topic without committed offsets.

    \b
    seglog groups reset-offsets billing --topic flights --to-earliest
    seglog groups reset-offsets billing --topic flights:0,2 --shift-by -100 --execute
    seglog groups reset-offsets billing --all-topics --to-current --export > billing.csv
    """
    if dry_run + execute + export > 1 or (export and as_json):
        raise click.UsageError("one of --dry-run, --execute and --export, which is not JSON")
    rule = _only_rule(rules)
    targets = read_targets(rule.value) if rule.name == "from_file" else {}
    if targets and (topics or all_topics):
        raise click.UsageError("with --from-file the file says which partitions")
    if not targets and bool(topics) == all_topics:
        raise click.UsageError("which topics? Say --topic TOPIC[:PARTITION,...] or --all-topics")
    named = _named_groups(choice, targets)
    with open_admin() as admin, way_out():
        groups = choice.resolve(admin) if named is None else named
        plans = [
            _plan(admin, group, topics, rule, targets.get(group, targets.get(None, {})))
            for group in groups
        ]
        if not any(plan.changes for plan in plans):
            raise click.ClickException("there is nothing to be set: no offset is committed")
        if not export:
            _check_members(plans, execute=execute)
        if execute:
            _carry_out(admin, plans)
    _print(plans, as_json=as_json, export=export)
    if not execute and not export:
        print_message("nothing is changed; --execute does it")


class _Rule(NamedTuple):
    """The option that says where offsets are set to, and its value."""

    name: str
    value: Any


class _Plan(NamedTuple):
    """The plan of a reset for a group, which may not exist yet."""

    group: str
    info: "GroupInfo | None"
    changes: "dict[TopicPartition, OffsetChange]"


def _only_rule(rules: dict[str, Any]) -> _Rule:
    given = [
        _Rule(name, value)
        for name, value in rules.items()
        if value is not None and value is not False
    ]
    if len(given) != 1:
        options = ", ".join("--" + name.replace("_", "-") for name in rules)
        raise click.UsageError(f"where to? Say one of {options}")
    return given[0]


def _named_groups(choice: GroupChoice, targets: Targets) -> list[str] | None:
    """The groups that are meant; None if those are all that there are."""
    in_file = [group for group in targets if group is not None]
    if not in_file:
        choice.require()
        return list(choice.names) or None
    if choice.names:
        strange = sorted(set(in_file) ^ set(choice.names))
        if strange:
            raise click.UsageError(
                f"the file and the command line do not name the same groups: {', '.join(strange)}"
            )
    return in_file


def _plan(
    admin: "Admin",
    group: str,
    topics: tuple[TopicChoice, ...],
    rule: _Rule,
    targets: dict[tuple[str, int], int],
) -> _Plan:
    from seglog.clients.errors import ConfigurationError, GroupNotFoundError

    info = None
    try:
        info = admin.describe_groups([group])[group]
    except GroupNotFoundError:
        # Where partitions are named, their offsets may be there before the group is.
        if not topics and not targets:
            raise
    places: list[str | tuple[str, int]] | None = None
    if topics:
        places = []
        for topic, partitions in topics:
            places += [(topic, number) for number in partitions] or [topic]
    try:
        if rule.name == "shift_by":
            changes = admin.reset_group_offsets(group, places, shift_by=rule.value, dry_run=True)
        else:
            to = targets or _WORDS.get(rule.name, rule.value)
            changes = admin.reset_group_offsets(group, places, to=to, dry_run=True)
    except ConfigurationError as error:
        hint = "--all-topics shifts only committed offsets"
        raise click.ClickException(f"group {group}: {error}; {hint}") from error
    _say_what_is_adjusted(group, changes, rule, targets)
    return _Plan(group, info, changes)


def _say_what_is_adjusted(
    group: str,
    changes: "dict[TopicPartition, OffsetChange]",
    rule: _Rule,
    targets: dict[tuple[str, int], int],
) -> None:
    for place, (before, after) in changes.items():
        wanted = after
        if rule.name == "to_offset":
            wanted = rule.value
        elif rule.name == "shift_by" and before is not None:
            wanted = before + rule.value
        elif targets:
            wanted = targets[place]
        if wanted != after:
            where = "beyond the end" if wanted > after else "before the first record"
            print_message(f"group {group}: {place}: {wanted} is {where}, {after} is taken")


def _check_members(plans: list[_Plan], *, execute: bool) -> None:
    """Look for groups that cannot be changed now, before any is."""
    from seglog.clients.errors import GroupNotEmptyError

    for group, info, _ in plans:
        if info is None:
            print_message(f"there is no group {group} yet; offsets make it")
        elif info.state != "Empty":
            text = f"group {group} has {_members_text(info)}, so its offsets cannot be set now"
            if execute:
                raise GroupNotEmptyError(text)
            print_message(text)


def _members_text(info: "GroupInfo") -> str:
    clients = sorted({f"{member.client_id} at {member.host}" for member in info.members})
    if len(clients) > _SHOWN_CLIENTS_MAX:
        clients[_SHOWN_CLIENTS_MAX:] = [f"{len(clients) - _SHOWN_CLIENTS_MAX} more"]
    return f"{count_text(len(info.members), 'member')} ({', '.join(clients)})"


def _carry_out(admin: "Admin", plans: list[_Plan]) -> None:
    for plan in plans:
        if plan.changes:
            after = {place: change.after for place, change in plan.changes.items()}
            admin.alter_group_offsets(plan.group, after)


def _print(plans: list[_Plan], *, as_json: bool, export: bool) -> None:
    if export:
        offsets = {
            plan.group: {
                (place.topic, place.partition): change.after
                for place, change in plan.changes.items()
            }
            for plan in plans
        }
        for line in offset_lines(offsets):
            print_file_line(line)
        return
    rows = [
        (plan.group, *place, change.after, change.before)
        for plan in plans
        for place, change in plan.changes.items()
    ]
    if as_json:
        print_json([dict(zip(_COLUMNS, row, strict=True)) for row in rows])
    else:
        print_table([column.upper().replace("_", "-") for column in _COLUMNS], rows)

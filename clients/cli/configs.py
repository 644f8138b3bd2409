"""``seglog configs``: settings of topics and of the broker."""

from typing import TYPE_CHECKING, Any, Final, Literal

import click

from seglog.clients.cli.connections import open_admin
from seglog.clients.cli.parameters import as_mapping, json_option, key_value
from seglog.clients.cli.rendering import print_json, print_message, print_table
from seglog.clients.cli.settings import connection_options
from seglog.protocol.types import ConfigSource

if TYPE_CHECKING:
    from seglog.clients.blocking.admin import Admin
    from seglog.protocol.api import ConfigEntry

_Kind = Literal["topic", "broker"]
_KINDS: Final[dict[str, _Kind]] = {
    "topic": "topic",
    "topics": "topic",
    "broker": "broker",
    "brokers": "broker",
}
_SOURCES: Final = {
    ConfigSource.TOPIC: "topic",
    ConfigSource.DYNAMIC_BROKER: "broker, at run time",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "all brokers, at run time",
    ConfigSource.STATIC_BROKER: "broker's file",
    ConfigSource.DEFAULT: "default",
}


@click.group()
def configs() -> None:
    """Describe and alter configurations of topics and of the broker."""


@configs.command("describe")
@click.argument("kind", type=click.Choice(list(_KINDS)), metavar="[topic|broker]")
@click.argument("name", required=False)
@click.option("--default", "is_default", is_flag=True, help="The settings for all brokers.")
@click.option("--all", "show_all", is_flag=True, help="Also settings that have their default.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Only this setting.")
@click.option("--docs", is_flag=True, help="With the meaning of each setting (and --all).")
@json_option
@connection_options
def describe(
    *,
    kind: str,
    name: str | None,
    is_default: bool,
    show_all: bool,
    keys: tuple[str, ...],
    docs: bool,
    as_json: bool,
) -> None:
    """Show settings of a topic, or of the broker (by its id; without one: the one that answers)."""
    _check_entity(_KINDS[kind], name, is_default)
    with open_admin() as admin:
        entity = _entity(admin, name, is_default)
        entries = admin.describe_configs(
            _KINDS[kind], entity, list(keys) or None, include_documentation=docs
        )
    shown = [
        entry
        for _, entry in sorted(entries.items())
        if show_all or docs or keys or entry.source != ConfigSource.DEFAULT
    ]
    if as_json:
        print_json([_as_json(entry, with_docs=docs) for entry in shown])
        return
    columns = ["KEY", "VALUE", "SOURCE", "READ-ONLY"] + ["MEANING"] * docs
    print_table(
        columns,
        [
            [
                entry.name,
                "(hidden)" if entry.is_sensitive else entry.value,
                _SOURCES.get(entry.source, str(entry.source)),
                "yes" if entry.is_read_only else "no",
                *[entry.documentation] * docs,
            ]
            for entry in shown
        ],
    )


def _as_json(entry: "ConfigEntry", *, with_docs: bool) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": entry.name,
        "value": entry.value,
        "source": ConfigSource(entry.source).name,
        "is_read_only": entry.is_read_only,
        "is_sensitive": entry.is_sensitive,
        "type": entry.value_type,
    }
    if with_docs:
        values["documentation"] = entry.documentation
    return values


@configs.command("alter")
@click.argument("kind", type=click.Choice(list(_KINDS)), metavar="[topic|broker]")
@click.argument("name", required=False)
@click.option("--default", "is_default", is_flag=True, help="For all brokers.")
@click.option(
    "--set",
    "--add-config",
    "added",
    type=key_value,
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a setting; may be given several times.",
)
@click.option(
    "--delete",
    "--delete-config",
    "deleted",
    multiple=True,
    metavar="KEY",
    help="Remove this setting, so that its default holds.",
)
@click.option("--dry-run", is_flag=True, help="Only check whether it would work.")
@connection_options
def alter(
    kind: str,
    name: str | None,
    is_default: bool,
    added: tuple[tuple[str, str], ...],
    deleted: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Change settings of a topic or of the broker, without a restart; all of them or none."""
    changes: dict[str, str | None] = {**as_mapping(added, "--set")}
    for key in deleted:
        if key in changes:
            raise click.UsageError(f"{key} is both set and deleted")
        changes[key] = None
    if not changes:
        raise click.UsageError("nothing to change: --set or --delete")
    _check_entity(_KINDS[kind], name, is_default)
    with open_admin() as admin:
        entity = _entity(admin, name, is_default)
        admin.alter_configs(_KINDS[kind], entity, changes, validate_only=dry_run)
    about = f"{_KINDS[kind]} {entity}" if entity else "all brokers"
    print_message(f"the change of {about} is {'possible' if dry_run else 'made'}")


def _check_entity(kind: _Kind, name: str | None, is_default: bool) -> None:
    """Refuse settings without a meaning, before a connection is made."""
    if is_default and (kind == "topic" or name is not None):
        raise click.UsageError("--default goes with broker and without a name")
    if kind == "topic" and name is None:
        raise click.UsageError("which topic?")


def _entity(admin: "Admin", name: str | None, is_default: bool) -> str:
    """The name of the resource for the broker."""
    if is_default:
        return ""
    if name is not None:
        return name
    brokers = admin.describe_cluster().brokers
    if len(brokers) != 1:
        ids = ", ".join(str(broker.node_id) for broker in brokers)
        raise click.UsageError(f"which broker? There are {ids}")
    return str(brokers[0].node_id)

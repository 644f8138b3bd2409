"""``seglog topics``: create, list, describe, alter and delete topics."""

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from seglog.clients.cli.connections import open_admin
from seglog.clients.cli.parameters import as_mapping, json_option, key_value
from seglog.clients.cli.partitions import STATE_COLUMNS, partition_as_json, state_cells
from seglog.clients.cli.rendering import (
    print_json,
    print_line,
    print_message,
    print_table,
)
from seglog.clients.cli.settings import connection_options
from seglog.protocol.types import ConfigSource, TopicPartition
from seglog.protocol.wording import count_text

if TYPE_CHECKING:
    from seglog.protocol.api import PartitionDescription, TopicMetadata

_LEADER_COLUMNS: Final = ("PARTITION", "LEADER", "REPLICAS", "ISR")


@click.group()
def topics() -> None:
    """Create, list, describe, alter and delete topics."""


@topics.command("create")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="How many; default is the broker's num.partitions.",
)
@click.option("--replication-factor", type=click.IntRange(min=1), help="Copies of each partition.")
@click.option(
    "-c",
    "--config",
    "configs",
    type=key_value,
    metavar="KEY=VALUE",
    multiple=True,
    help="A setting of the topics.",
)
@click.option("--if-not-exists", is_flag=True, help="Pass over topics that exist.")
@click.option("--dry-run", is_flag=True, help="Only check whether it would work.")
@json_option
@connection_options
def create(
    *,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[tuple[str, str], ...],
    if_not_exists: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Create topics."""
    settings = as_mapping(configs, "--config")
    created: list[dict[str, Any]] = []
    with open_admin() as admin:
        from seglog.clients.errors import TopicAlreadyExistsError

        for name in names:
            try:
                result = admin.create_topic(
                    name,
                    -1 if partitions is None else partitions,
                    replication_factor=-1 if replication_factor is None else replication_factor,
                    configs=settings,
                    validate_only=dry_run,
                )
            except TopicAlreadyExistsError:
                if not if_not_exists:
                    raise
                print_message(f"topic {name} exists already")
                continue
            verb = "would be created" if dry_run else "is created"
            print_message(f"topic {name} {verb} with {count_text(result.partitions, 'partition')}")
            created.append(
                {
                    "name": name,
                    "topic_id": id_text(result.topic_id),
                    "partitions": result.partitions,
                    "replication_factor": result.replication_factor,
                }
            )
    if as_json:
        print_json(created)


@topics.command("list")
@click.option("--internal", is_flag=True, help="Also those of the broker itself.")
@json_option
@connection_options
def list_topics(internal: bool, as_json: bool) -> None:
    """List the names of all topics."""
    with open_admin() as admin:
        names = admin.list_topics(include_internal=internal)
    if as_json:
        print_json(names)
        return
    for name in names:
        print_line(name)


@topics.command("describe")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@json_option
@connection_options
def describe(names: tuple[str, ...], as_json: bool) -> None:
    """Describe topics: settings, partitions, offsets, sizes, and how far compaction has come.

    FIRST DIRTY is the first offset that compaction has not seen, RATIO the share of bytes that it
    has not.
    """
    chosen = list(dict.fromkeys(names)) or None
    with open_admin() as admin:
        found = admin.describe_topics(chosen)
        states = admin.describe_partitions(chosen)
        configs = {name: _own_configs(admin.describe_configs("topic", name)) for name in found}
    if as_json:
        print_json([_as_json(topic, configs[name], states) for name, topic in found.items()])
        return
    for number, (name, topic) in enumerate(sorted(found.items())):
        if number:
            print_line("")
        _print_topic(name, topic, configs[name], states)


def _own_configs(entries: dict[str, Any]) -> dict[str, str]:
    """The settings that the topic itself has; the others are the broker's."""
    return {
        name: entry.value
        for name, entry in sorted(entries.items())
        if entry.source == ConfigSource.TOPIC
    }


def _print_topic(
    name: str,
    topic: "TopicMetadata",
    configs: dict[str, str],
    states: "dict[TopicPartition, PartitionDescription]",
) -> None:
    replication_factor = len(topic.partitions[0].replica_ids) if topic.partitions else 0
    settings = ",".join(f"{key}={value}" for key, value in configs.items())
    print_line(
        f"Topic: {name}  TopicId: {id_text(topic.topic_id)}  "
        f"PartitionCount: {len(topic.partitions)}  ReplicationFactor: {replication_factor}  "
        f"Configs: {settings}"
    )
    rows: list[Sequence[object]] = []
    for partition in topic.partitions:
        leader = None if partition.leader_id < 0 else partition.leader_id
        row: list[object] = [
            partition.partition,
            leader,
            _ids(partition.replica_ids),
            _ids(partition.isr_ids),
        ]
        state = states.get(TopicPartition(name, partition.partition))
        row += [None] * len(STATE_COLUMNS) if state is None else state_cells(state)
        rows.append(row)
    print_table((*_LEADER_COLUMNS, *STATE_COLUMNS), rows)


def _as_json(
    topic: "TopicMetadata",
    configs: dict[str, str],
    states: "dict[TopicPartition, PartitionDescription]",
) -> dict[str, Any]:
    partitions = []
    for partition in topic.partitions:
        state = states.get(TopicPartition(topic.name or "", partition.partition))
        partitions.append(
            {
                "partition": partition.partition,
                "leader": partition.leader_id,
                "replicas": partition.replica_ids,
                "isr": partition.isr_ids,
                **({} if state is None else partition_as_json(state)),
            }
        )
    return {
        "name": topic.name,
        "topic_id": id_text(topic.topic_id),
        "is_internal": topic.is_internal,
        "configs": configs,
        "partitions": partitions,
    }


@topics.command("alter")
@click.argument("name")
@click.option(
    "-c",
    "--config",
    "configs",
    type=key_value,
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a setting of the topic.",
)
@click.option(
    "--delete-config",
    "deleted",
    multiple=True,
    metavar="KEY",
    help="Go back to the broker's value of a setting.",
)
@click.option("--partitions", type=click.IntRange(min=1), help="Grow to so many partitions.")
@connection_options
def alter(
    name: str,
    configs: tuple[tuple[str, str], ...],
    deleted: tuple[str, ...],
    partitions: int | None,
) -> None:
    """Change settings of a topic, or give it more partitions."""
    changes: dict[str, str | None] = {**as_mapping(configs, "--config")}
    for key in deleted:
        if key in changes:
            raise click.UsageError(f"{key} is both set and deleted")
        changes[key] = None
    if not changes and partitions is None:
        raise click.UsageError("nothing to change: --config, --delete-config or --partitions")
    with open_admin() as admin:
        if changes:
            admin.alter_configs("topic", name, changes)
        if partitions is not None:
            admin.create_partitions(name, partitions)
    print_message(f"topic {name} is altered")


@topics.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--if-exists", is_flag=True, help="Pass over topics that do not exist.")
@connection_options
def delete(names: tuple[str, ...], if_exists: bool) -> None:
    """Delete topics with all their records."""
    with open_admin() as admin:
        from seglog.clients.errors import UnknownTopicOrPartitionError

        for name in dict.fromkeys(names):
            try:
                admin.delete_topic(name)
            except UnknownTopicOrPartitionError:
                if not if_exists:
                    raise
                print_message(f"topic {name} does not exist")
                continue
            print_message(f"topic {name} is deleted")


def id_text(identifier: bytes) -> str:
    """A topic's id as Kafka writes it."""
    return base64.urlsafe_b64encode(identifier).decode("ascii").rstrip("=")


def _ids(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))

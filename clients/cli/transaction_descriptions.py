"""``seglog transactions list``, ``describe`` and ``find-hanging``."""

import time
from typing import TYPE_CHECKING, Final

import click

from seglog.clients.cli.connections import open_admin
from seglog.clients.cli.group_choices import TopicChoice, topic_partitions
from seglog.clients.cli.parameters import json_option
from seglog.clients.cli.rendering import (
    print_json,
    print_message,
    print_table,
    time_text,
)
from seglog.clients.cli.settings import connection_options

if TYPE_CHECKING:
    from seglog.clients.models import OpenTransaction, TransactionInfo

_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
)
_OPEN_COLUMNS: Final = (
    "TOPIC",
    "PARTITION",
    "PRODUCER-ID",
    "EPOCH",
    "COORDINATOR-EPOCH",
    "START-OFFSET",
    "LAST-TIMESTAMP",
    "TRANSACTIONAL-ID",
)
_DESCRIPTION_COLUMNS: Final = (
    "TRANSACTIONAL-ID",
    "STATE",
    "PRODUCER-ID",
    "EPOCH",
    "TIMEOUT-MS",
    "STARTED",
    "OPEN-FOR-MS",
    "PARTITIONS",
)


@click.command()
@click.option(
    "--state",
    "states",
    type=click.Choice(_STATES, case_sensitive=False),
    multiple=True,
    help="Only in this state; may be given several times.",
)
@click.option("--pattern", help="Only those whose whole names match this regular expression.")
@click.option(
    "--open-for",
    "duration_ms",
    type=click.IntRange(min=0),
    metavar="MS",
    help="Only those with a transaction that is open for longer.",
)
@json_option
@connection_options
def list_transactions(
    states: tuple[str, ...], pattern: str | None, duration_ms: int | None, as_json: bool
) -> None:
    """List transactional ids with the producer that owns each, and where its transaction stands."""
    with open_admin() as admin:
        found = admin.list_transactions(
            states=states,
            pattern=pattern,
            duration_ms=-1 if duration_ms is None else duration_ms,
        )
    rows = [(each.transactional_id, each.producer_id, each.state) for each in found]
    if as_json:
        names = ("transactional_id", "producer_id", "state")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    elif rows:
        print_table(("TRANSACTIONAL-ID", "PRODUCER-ID", "STATE"), rows)
    else:
        print_message("there are no such transactional ids")


@click.command()
@click.argument("transactional_ids", metavar="TRANSACTIONAL_ID...", nargs=-1, required=True)
@json_option
@connection_options
def describe(transactional_ids: tuple[str, ...], as_json: bool) -> None:
    """Show the owners of transactional ids, and the age and partitions of their transactions."""
    with open_admin() as admin:
        infos = admin.describe_transactions(transactional_ids)
    if as_json:
        print_json([_as_json(info) for info in infos.values()])
        return
    now_ms = time.time_ns() // 1_000_000
    print_table(_DESCRIPTION_COLUMNS, [_row(info, now_ms) for info in infos.values()])


def _row(info: "TransactionInfo", now_ms: int) -> tuple[object, ...]:
    is_open = info.started_ms >= 0
    return (
        info.transactional_id,
        info.state,
        info.producer_id,
        info.producer_epoch,
        info.timeout_ms,
        time_text(info.started_ms) if is_open else None,
        max(0, now_ms - info.started_ms) if is_open else None,
        ",".join(map(str, info.partitions)) or None,
    )


def _as_json(info: "TransactionInfo") -> dict[str, object]:
    return {
        **info._asdict(),
        "started_ms": info.started_ms if info.started_ms >= 0 else None,
        "partitions": [place._asdict() for place in info.partitions],
    }


@click.command()
@click.option(
    "--topic",
    "topics",
    type=topic_partitions,
    multiple=True,
    metavar="TOPIC[:PARTITION,...]",
    help="Only there; may be given several times.",
)
@click.option(
    "--all",
    "shows_all",
    is_flag=True,
    help="Every open transaction, also those that a coordinator looks after.",
)
@json_option
@connection_options
def find_hanging(topics: tuple[TopicChoice, ...], shows_all: bool, as_json: bool) -> int:
    """Find transactions that are open in a partition and that no coordinator knows of.

    They hold readers of decided records and compaction back until 'abort' ends them. The status is
    1 if there are any.
    """
    chosen: list[str | tuple[str, int]] = []
    for topic, partitions in topics:
        chosen += [(topic, number) for number in partitions] if partitions else [topic]
    with open_admin() as admin:
        found = admin.open_transactions(chosen or None)
    hanging = [each for each in found if each.transactional_id is None]
    shown = found if shows_all else hanging
    if as_json:
        print_json([_open_as_json(each) for each in shown])
    elif shown:
        print_table(_OPEN_COLUMNS, [_open_row(each) for each in shown])
    print_message(f"hanging transactions: {len(hanging)}")
    return 1 if hanging else 0


def _open_row(each: "OpenTransaction") -> tuple[object, ...]:
    return (
        *each.partition,
        each.producer_id,
        each.producer_epoch,
        each.coordinator_epoch if each.coordinator_epoch >= 0 else None,
        each.start_offset,
        time_text(each.last_timestamp_ms),
        each.transactional_id,
    )


def _open_as_json(each: "OpenTransaction") -> dict[str, object]:
    fields = each._asdict()
    return {**fields.pop("partition")._asdict(), **fields}

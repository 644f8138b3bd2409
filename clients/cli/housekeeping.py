"""``seglog retention``, ``clean`` and ``roll``: background work of the broker, done now."""

import dataclasses
import threading
from typing import TYPE_CHECKING, Any, Final

import click

from seglog.clients.cli.connections import open_admin
from seglog.clients.cli.parameters import chosen_partitions, json_option, partition_option
from seglog.clients.cli.partitions import cleaning_text
from seglog.clients.cli.rendering import (
    LiveLine,
    print_json,
    print_message,
    print_table,
    size_text,
)
from seglog.clients.cli.settings import connection_options
from seglog.protocol.errors import ErrorCode
from seglog.protocol.wording import count_text

if TYPE_CHECKING:
    from seglog.clients.blocking.admin import Admin
    from seglog.protocol.api import CleanLogResult

_CLEAN_TIMEOUT_MS: Final = 24 * 3600 * 1000
_PROGRESS_S: Final = 0.5
_FAILED: Final = "failed"


@click.group()
def retention() -> None:
    """Apply retention now, or show the segments that it would delete."""


@retention.command("run")
@click.argument("topics", nargs=-1, metavar="[TOPIC...]")
@click.option("--dry-run", is_flag=True, help="Only show what would go, and why.")
@json_option
@connection_options
def run(topics: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Delete the segments that are over the limits of their topics (none named: of all)."""
    with open_admin() as admin:
        findings = admin.run_retention(list(dict.fromkeys(topics)) or None, dry_run=dry_run)
    if as_json:
        print_json([dataclasses.asdict(finding) for finding in findings])
        return
    if findings:
        print_table(
            ("TOPIC", "PARTITION", "BASE-OFFSET", "SIZE", "REASON"),
            [
                (
                    finding.topic,
                    finding.partition,
                    finding.base_offset,
                    size_text(finding.size_bytes),
                    finding.reason,
                )
                for finding in findings
            ],
        )
    total = size_text(sum(finding.size_bytes for finding in findings))
    verb = "would be deleted" if dry_run else "deleted"
    print_message(f"{count_text(len(findings), 'segment')} ({total}) {verb}")


@click.command()
@click.argument("topic")
@partition_option
@click.option("--wait", is_flag=True, help="Until it is done; shows how far it is.")
@click.option("--roll", "rolls", is_flag=True, help="Close the active segments before.")
@json_option
@connection_options
def clean(topic: str, partitions: tuple[int, ...], wait: bool, rolls: bool, as_json: bool) -> int:
    """Compact a topic now, regardless of its dirty ratio.

    A pass skips active segments, unless --roll closes them before. Without --wait the command only
    puts the partitions into the queue of the cleaners.
    """
    chosen = chosen_partitions(partitions)
    if rolls:
        with open_admin() as admin:
            admin.roll(topic, chosen)
    if wait:
        with open_admin(request_timeout_ms=_CLEAN_TIMEOUT_MS) as admin:
            results = _clean_and_watch(admin, topic, chosen)
    else:
        with open_admin() as admin:
            results = admin.clean(topic, chosen)
    if as_json:
        print_json([_as_json(result) for result in results])
    else:
        print_table(
            ("TOPIC", "PARTITION", "STATE", "BEFORE", "AFTER", "READ", "WRITTEN"),
            [
                (
                    result.topic,
                    result.partition,
                    result.state,
                    *_sizes(result, is_finished=wait),
                )
                for result in results
            ],
        )
    return 1 if any(result.state == _FAILED for result in results) else 0


def _sizes(result: "CleanLogResult", *, is_finished: bool) -> list[str | None]:
    if not is_finished:
        return [None] * 4
    numbers = (result.size_before, result.size_after, result.bytes_read, result.bytes_written)
    return [size_text(number) for number in numbers]


def _as_json(result: "CleanLogResult") -> dict[str, Any]:
    fields = dataclasses.asdict(result)
    fields["error"] = None if result.error is ErrorCode.NONE else result.error.name
    return fields


def _clean_and_watch(
    admin: "Admin", topic: str, partitions: list[int] | None
) -> "list[CleanLogResult]":
    """Clean and wait, while another thread looks how far it is."""
    live = LiveLine()
    is_done = threading.Event()

    def watch() -> None:
        from seglog.clients.errors import ClientError

        try:
            while not is_done.wait(_PROGRESS_S):
                states = admin.describe_partitions([topic]).values()
                running = [
                    f"partition {state.partition}: {cleaning_text(state)}"
                    for state in states
                    if cleaning_text(state)
                ]
                live.show("; ".join(running) or "waiting for a cleaner")
        except ClientError as error:
            # Progress is a courtesy; the request itself will report the error.
            live.show(f"no progress to be seen: {error}")

    thread = threading.Thread(target=watch, name="seglog-clean-progress", daemon=True)
    thread.start()
    try:
        return admin.clean(topic, partitions, wait=True)
    finally:
        is_done.set()
        thread.join()
        live.clear()


@click.command()
@click.argument("topic")
@partition_option
@json_option
@connection_options
def roll(topic: str, partitions: tuple[int, ...], as_json: bool) -> None:
    """Close the active segment of the partitions of a topic and begin a new one.

    An active segment that is empty stays.
    """
    with open_admin() as admin:
        results = admin.roll(topic, chosen_partitions(partitions))
    if as_json:
        print_json(
            [
                {
                    "topic": result.topic,
                    "partition": result.partition,
                    "active_base_offset": result.active_base_offset,
                }
                for result in results
            ]
        )
        return
    print_table(
        ("TOPIC", "PARTITION", "ACTIVE-BASE-OFFSET"),
        [(result.topic, result.partition, result.active_base_offset) for result in results],
    )

"""``seglog health``: one answer for people and scripts, whether the broker is well."""

import time
from typing import TYPE_CHECKING, Any

import click

from seglog.clients.cli.connections import open_admin
from seglog.clients.cli.parameters import json_option
from seglog.clients.cli.partitions import error_text
from seglog.clients.cli.rendering import print_json, print_line
from seglog.clients.cli.settings import connection_options, current_settings
from seglog.protocol.errors import ErrorCode
from seglog.protocol.wording import count_text

if TYPE_CHECKING:
    from seglog.protocol.api import LogDirDescription


@click.command()
@json_option
@connection_options
def health(as_json: bool) -> int:
    """Say whether the broker answers and is well; the exit status is 1 if not.

    Well is: every data directory is online and takes records, every partition has a leader and can
    be read, and no reader has met damaged records. A log that cannot be compacted is a warning,
    which the first line counts; it does not make the broker unwell.
    """
    with open_admin() as admin:
        begin_s = time.monotonic()
        cluster = admin.describe_cluster()
        answer_ms = (time.monotonic() - begin_s) * 1000
        topics = admin.describe_topics()
        partitions = admin.describe_partitions().values()
        log_dirs = admin.describe_log_dirs()
    faults = [
        f"the data directory {log_dir.path} {trouble}"
        for log_dir in log_dirs
        if (trouble := _trouble_of(log_dir)) is not None
    ]
    faults += [
        f"partition {name}-{partition.partition} has no leader"
        for name, topic in topics.items()
        for partition in topic.partitions
        if partition.leader_id < 0
    ]
    faults += [
        f"partition {state.topic}-{state.partition} is not served: {error_text(state)}"
        for state in partitions
        if state.error is not ErrorCode.NONE
    ]
    faults += [
        f"partition {state.topic}-{state.partition} has damaged records: {state.damage}"
        for state in partitions
        if state.damage is not None
    ]
    warnings = [
        f"partition {state.topic}-{state.partition} cannot be compacted: {state.uncleanable_reason}"
        for state in partitions
        if state.uncleanable_reason is not None
    ]
    figures: dict[str, Any] = {
        "address": current_settings().address,
        "is_healthy": not faults,
        "cluster_id": cluster.cluster_id,
        "brokers": len(cluster.brokers),
        "topics": len(topics),
        "partitions": len(partitions),
        "answer_ms": round(answer_ms, 1),
        "faults": faults,
        "warnings": warnings,
    }
    if as_json:
        print_json(figures)
    else:
        word = "is well" if not faults else "is not well"
        if warnings:
            word += f", with {count_text(len(warnings), 'warning')}"
        print_line(
            f"{figures['address']} {word}: {count_text(len(topics), 'topic')}, "
            f"{count_text(len(partitions), 'partition')}, "
            f"answered in {answer_ms:.1f} ms"
        )
        for text in (*faults, *warnings):
            print_line(text)
    return 1 if faults else 0


def _trouble_of(log_dir: "LogDirDescription") -> str | None:
    if log_dir.trouble is None and log_dir.error is not ErrorCode.NONE:
        return f"is offline: {log_dir.error.name}"
    return log_dir.trouble

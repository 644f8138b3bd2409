"""``seglog log-dirs``: the data directories and their contents."""

from typing import Any

import click

from seglog.clients.cli.connections import open_admin
from seglog.clients.cli.parameters import json_option
from seglog.clients.cli.rendering import print_json, print_table, size_text
from seglog.clients.cli.settings import connection_options
from seglog.protocol.errors import ErrorCode


@click.command()
@click.option("--by-partition", is_flag=True, help="One row a partition, the largest first.")
@json_option
@connection_options
def log_dirs(by_partition: bool, as_json: bool) -> None:
    """Show the data directories, their disks, and the size of their logs."""
    with open_admin() as admin:
        found = admin.describe_log_dirs()
    if as_json:
        print_json(
            [
                {
                    "path": log_dir.path,
                    "error": _error_of(log_dir),
                    "trouble": log_dir.trouble,
                    "total_bytes": log_dir.total_bytes,
                    "usable_bytes": log_dir.usable_bytes,
                    "partitions": [
                        {
                            "topic": partition.topic,
                            "partition": partition.partition,
                            "size_bytes": partition.size_bytes,
                            "is_future": partition.is_future,
                        }
                        for partition in log_dir.partitions
                    ],
                }
                for log_dir in found
            ]
        )
    elif by_partition:
        rows = [
            (partition.size_bytes, partition.topic, partition.partition, log_dir.path)
            for log_dir in found
            for partition in log_dir.partitions
        ]
        rows.sort(key=lambda row: (-row[0], row[1:]))
        print_table(
            ("TOPIC", "PARTITION", "SIZE", "LOG-DIR"),
            [(topic, number, size_text(size), path) for size, topic, number, path in rows],
        )
    else:
        print_table(
            ("LOG-DIR", "STATE", "PARTITIONS", "SIZE", "DISK-FREE", "DISK-TOTAL"),
            [
                (
                    log_dir.path,
                    _state_of(log_dir),
                    len(log_dir.partitions),
                    size_text(sum(partition.size_bytes for partition in log_dir.partitions)),
                    _space_text(log_dir.usable_bytes),
                    _space_text(log_dir.total_bytes),
                )
                for log_dir in found
            ],
        )


def _error_of(log_dir: Any) -> str | None:
    return None if log_dir.error is ErrorCode.NONE else log_dir.error.name


def _state_of(log_dir: Any) -> str:
    return _error_of(log_dir) or ("online" if log_dir.trouble is None else "takes no records")


def _space_text(size_bytes: int) -> str | None:
    return None if size_bytes < 0 else size_text(size_bytes)

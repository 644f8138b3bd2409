"""``seglogd verify DIR``: check a data folder, or the folder of one partition, without a change."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from seglog.broker.storage.errors import InvalidDirectoryNameError, StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import RECOVERY_POINT_CHECKPOINT, parse_partition_directory
from seglog.broker.tools.data_folder_check import (
    DataFolder,
    check_data_folder,
    is_partition_folder,
    read_data_folder,
)
from seglog.broker.tools.findings import Findings, Severity
from seglog.broker.tools.partition_check import PartitionSummary, check_partition
from seglog.broker.tools.read_only import read_only_files
from seglog.protocol.types import TopicPartition
from seglog.protocol.wording import count_text


@click.command()
@click.argument(
    "directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON to standard output.")
def verify(directory: Path, as_json: bool) -> None:
    """Check every file of a data folder, or of the folder of one partition. Nothing is changed.

    It checks names, checksums, records, the order of offsets, every index entry against the
    data, checkpoints against the log, and files that belong to nothing. A broker may run: the
    end that it is writing is not judged. The exit status is 1 if there is a fault.
    """
    findings = Findings()
    report = _Report(findings, as_json=as_json)
    try:
        _check(read_only_files(), str(directory.absolute()), findings, report)
    except StorageError as error:
        click.echo(f"seglogd: {error}", err=True)
        sys.exit(1)
    report.end()
    sys.exit(1 if findings.has_faults else 0)


def _check(file_system: FileSystem, path: str, findings: Findings, report: "_Report") -> None:
    if not is_partition_folder(file_system, path):
        folder = read_data_folder(file_system, path, findings)
        report.begin(folder)
        for partition in check_data_folder(file_system, folder, findings):
            report.add(partition)
        return
    # The data folder around it tells whether a broker runs, and where the log should begin and end;
    # its own faults are not reported here.
    parent, _, name = path.rpartition("/")
    folder = read_data_folder(file_system, parent or "/", Findings())
    topic_partition = _partition_of(name)
    report.begin(folder)
    recovery_point = 0
    if topic_partition is not None:
        checkpoint = folder.checkpoints[RECOVERY_POINT_CHECKPOINT]
        recovery_point = checkpoint.get(topic_partition, 0)
    report.add(
        check_partition(
            file_system,
            path,
            folder.state_for(topic_partition),
            findings,
            recovery_point=recovery_point,
        )
    )


def _partition_of(name: str) -> TopicPartition | None:
    try:
        return parse_partition_directory(name).topic_partition
    except InvalidDirectoryNameError:
        return None


class _Report:
    """Writes findings as they come; as JSON at the end."""

    def __init__(self, findings: Findings, *, as_json: bool) -> None:
        self._findings = findings
        self._as_json = as_json
        self._folder: DataFolder | None = None
        self._partitions: list[PartitionSummary] = []
        self._written = 0

    def begin(self, folder: DataFolder) -> None:
        """Say in what state the folder is."""
        self._folder = folder
        if not self._as_json:
            click.echo(f"{folder.path}: {folder.state_text}")
            self._write_findings()

    def add(self, partition: PartitionSummary) -> None:
        """Write the contents of a partition, and its faults."""
        self._partitions.append(partition)
        if self._as_json:
            return
        click.echo(
            f"{partition.path.rpartition('/')[2]}: {count_text(partition.segments, 'segment')}, "
            f"{count_text(partition.batches, 'batch', 'batches')}, "
            f"{count_text(partition.records, 'record')}, "
            f"offsets {partition.first_offset} to {partition.end_offset}, "
            f"{partition.size_bytes} bytes"
        )
        self._write_findings()

    def _write_findings(self) -> None:
        for finding in self._findings.all[self._written :]:
            click.echo(f"  {finding}")
        self._written = len(self._findings.all)

    def end(self) -> None:
        """Say how it went."""
        faults = self._findings.count(Severity.FAULT)
        notes = self._findings.count(Severity.NOTE)
        if self._as_json:
            click.echo(json.dumps(self._document(), indent=2))
            return
        self._write_findings()
        records = sum(partition.records for partition in self._partitions)
        verdict = "everything is whole" if not faults else count_text(faults, "fault")
        click.echo(
            f"{count_text(len(self._partitions), 'partition')}, {count_text(records, 'record')}: "
            f"{verdict}, {count_text(notes, 'note')}"
        )

    def _document(self) -> dict[str, Any]:
        folder = self._folder
        assert folder is not None
        return {
            "path": folder.path,
            "is_running": folder.holder is not None,
            "is_clean": folder.is_clean,
            "is_whole": not self._findings.has_faults,
            "partitions": [partition.as_json() for partition in self._partitions],
            "findings": [finding.as_json() for finding in self._findings.all],
        }

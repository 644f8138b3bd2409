"""``seglogd dump-log FILE...``: show the contents of a broker's files, or only check them."""

import json
import os.path
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from seglog.broker.storage.directories.directory_lock import holder_of
from seglog.broker.storage.errors import CorruptFileError, StorageError
from seglog.broker.storage.files.file_system import FileSystem
from seglog.broker.storage.files.layout import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SegmentFileName,
    parse_segment_file_name,
)
from seglog.broker.tools.dump_lines import RECORD, LogDump, index_lines
from seglog.broker.tools.findings import Findings, Severity
from seglog.broker.tools.read_only import read_only_files
from seglog.broker.tools.segment_check import SegmentRole, SegmentSummary, check_segment
from seglog.broker.tools.small_files import Line, reader_of, text_of
from seglog.protocol.wording import count_text

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("dump-log")
@click.argument("files", nargs=-1, metavar="FILE...", type=_FILE)
@click.option(
    "--files", "listed", metavar="FILE,...", help="Further files, as Kafka's tool has it."
)
@click.option(
    "--records",
    "--print-data-log",
    "--deep-iteration",
    "with_records",
    is_flag=True,
    help="Show every record of a data file with key and value.",
)
@click.option("--skip-record-metadata", is_flag=True, help="With --records: only keys and values.")
@click.option(
    "--max-bytes", type=click.IntRange(min=1), help="Only the first bytes of a data file."
)
@click.option(
    "--verify",
    "--verify-index-only",
    "--index-sanity-check",
    "verifies",
    is_flag=True,
    help="Show no content; check every checksum, record and order, and indexes against the data.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object a line.")
def dump_log(
    *,
    files: tuple[Path, ...],
    listed: str | None,
    with_records: bool,
    skip_record_metadata: bool,
    max_bytes: int | None,
    verifies: bool,
    as_json: bool,
) -> None:
    """Show the contents of a broker's files: .log, .index, .timeindex, .txnindex, .snapshot,
    checkpoints, partition.metadata, meta.properties, the catalog.

    Nothing is changed. The exit status is 1 if a file has a fault.

    \b
    seglogd dump-log --records seglog-data/flights-0/00000000000000000000.log
    seglogd dump-log --verify seglog-data/flights-0/*
    """
    paths = [*map(str, files), *(listed.split(",") if listed else ())]
    if not paths:
        raise click.UsageError("which files?")
    missing = next((path for path in paths if not Path(path).is_file()), None)
    if missing is not None:
        raise click.UsageError(f"there is no file {missing}")
    findings = Findings()
    writer = _Writer(findings, as_json=as_json)
    file_system = read_only_files()
    verifier = _Verifier(file_system, findings)
    dump = LogDump(
        with_records=with_records, with_metadata=not skip_record_metadata, max_bytes=max_bytes
    )
    for path in paths:
        try:
            if verifies:
                writer.verdict(path, verifier.check(path))
            else:
                writer.show(path, _lines(file_system, path, dump, findings))
        except CorruptFileError as error:
            findings.fault(path, error.reason)
        except StorageError as error:
            findings.fault(path, str(error))
        writer.write_findings()
    sys.exit(1 if findings.has_faults else 0)


def _name_of(path: str) -> str:
    """The file's name, without the suffix that the middle of a swap or a deletion adds."""
    return path.rpartition("/")[2]


def _lines(file_system: FileSystem, path: str, dump: LogDump, findings: Findings) -> Iterator[Line]:
    name = _name_of(path)
    parsed = parse_segment_file_name(name)
    if parsed is not None and parsed.suffix == LOG_SUFFIX:
        return dump.lines(file_system, path, parsed.base_offset, findings)
    if parsed is not None and parsed.suffix in INDEX_SUFFIXES:
        return index_lines(file_system, path, parsed, findings)
    return iter(_small_file(file_system, path, parsed, findings))


def _small_file(
    file_system: FileSystem, path: str, parsed: SegmentFileName | None, findings: Findings
) -> list[Line]:
    name = _name_of(path)
    if parsed is not None:
        name = name.removesuffix(parsed.state) if parsed.state else name
    reader = reader_of(name)
    if reader is None:
        findings.fault(path, "by its name it is none of a broker's files")
        return []
    return reader(file_system, path)


class _Verifier:
    """Checks files; the files of one segment together, and only once."""

    def __init__(self, file_system: FileSystem, findings: Findings) -> None:
        self._file_system = file_system
        self._findings = findings
        self._segments: dict[tuple[str, int, str], SegmentSummary | None] = {}

    def check(self, path: str) -> str:
        """Check a file; returns its contents in a few words.

        Raises:
            StorageError: it is damaged or cannot be read.
        """
        parsed = parse_segment_file_name(_name_of(path))
        if parsed is None or parsed.suffix not in (LOG_SUFFIX, *INDEX_SUFFIXES):
            lines = _small_file(self._file_system, path, parsed, self._findings)
            return count_text(len(lines), "entry", "entries")
        directory = path.rpartition("/")[0] or "."
        key = (directory, parsed.base_offset, parsed.state)
        if key not in self._segments:
            role = _role_of(self._file_system, directory, parsed.base_offset)
            self._segments[key] = check_segment(
                self._file_system,
                directory,
                parsed.base_offset,
                role,
                self._findings,
                parsed.state,
            )
        summary = self._segments[key]
        if summary is None:
            self._findings.fault(path, "there is no data file beside it")
            return "not to be judged"
        if not summary.batches:
            return "no batches"
        return (
            f"{count_text(summary.batches, 'batch', 'batches')}, "
            f"{count_text(summary.records, 'record')} up to offset {summary.next_offset - 1}, "
            f"{summary.size_bytes} bytes"
        )


def _role_of(file_system: FileSystem, directory: str, base_offset: int) -> SegmentRole:
    """Whether the segment is the last of its folder, and whether a broker may be writing to it."""
    others = map(parse_segment_file_name, file_system.list_directory(directory))
    is_active = not any(
        other is not None
        and other.suffix == LOG_SUFFIX
        and not other.state
        and other.base_offset > base_offset
        for other in others
    )
    is_running = holder_of(f"{directory}/..") is not None
    return SegmentRole(is_active, is_doubtful=is_active and is_running)


class _Writer:
    """Writes lines and findings."""

    def __init__(self, findings: Findings, *, as_json: bool) -> None:
        self._findings = findings
        self._as_json = as_json
        self._written = 0

    def show(self, path: str, lines: Iterator[Line]) -> None:
        """The content of a file."""
        if not self._as_json:
            click.echo(f"Dumping {path}")
        for line in lines:
            if self._as_json:
                fields = {name: _plain(value) for name, value in line.fields.items()}
                click.echo(json.dumps({"file": path, "kind": line.kind, **fields}))
            else:
                click.echo(f"| {line}" if line.kind == RECORD else str(line))

    def verdict(self, path: str, content: str) -> None:
        """The contents of a file, and whether it is whole."""
        place = os.path.normpath(path)
        is_whole = not any(
            finding.severity is Severity.FAULT and os.path.normpath(finding.path) == place
            for finding in self._findings.all
        )
        if self._as_json:
            document = {"file": path, "kind": "verdict", "is_whole": is_whole, "content": content}
            click.echo(json.dumps(document))
        else:
            click.echo(f"{path}: {'whole' if is_whole else 'NOT WHOLE'}, {content}")

    def write_findings(self) -> None:
        """Faults and notes about the file that was shown last."""
        for finding in self._findings.all[self._written :]:
            if self._as_json:
                click.echo(json.dumps({"kind": "finding", **finding.as_json()}))
            else:
                click.echo(str(finding))
        self._written = len(self._findings.all)


def _plain(value: Any) -> Any:
    return text_of(value) if isinstance(value, bytes) else value

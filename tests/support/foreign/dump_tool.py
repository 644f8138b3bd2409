"""Kafka's own DumpLogSegments over a data folder: what it read, and what it complained about."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from support.foreign.programs import run_java

SUFFIXES = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
DUMP_TOOL = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS = (
    "isvalid: false",
    "mismatch",
    "out of order",
    "corrupt",
    "Exception",
    "Could not",
    "trailing",
    "invalid bytes",
)
_FILES_PER_RUN = 400
_HOLES = "Non-consecutive offsets"
_FOLLOWED = " is followed by "


class Dumped(NamedTuple):
    """What came of a data folder."""

    files: list[Path]
    batches: int
    complaints: list[str]


def dump_folder(*folders: Path, may_have_holes: bool = False) -> Dumped:
    """Have every file of data folders read by Kafka's tool.

    Args:
        may_have_holes: whether offsets may be missing, as compaction leaves it.
    """
    files = sorted(
        path for folder in folders for path in folder.rglob("*") if path.suffix in SUFFIXES
    )
    complaints: list[str] = []
    batches = 0
    for start in range(0, len(files), _FILES_PER_RUN):
        lines = _dump(files[start : start + _FILES_PER_RUN])
        batches += sum("baseOffset: " in line for line in lines)
        complaints += _complaints(lines, may_have_holes)
    return Dumped(files, batches, complaints)


def _dump(files: Sequence[Path]) -> list[str]:
    names = ",".join(str(each) for each in files)
    done = run_java(DUMP_TOOL, "--deep-iteration", "--files", names)
    return (done.stdout + done.stderr).splitlines()


def _complaints(lines: Sequence[str], may_have_holes: bool) -> list[str]:
    """What the tool found wrong.

    Version 4.4 takes -1 for the offset before each file, so that it says of every segment but the
    first that "-1 is followed by" its base offset; that alone means nothing.
    """
    found = [
        line
        for line in lines
        if not line.startswith(_HOLES) and any(word.lower() in line.lower() for word in COMPLAINTS)
    ]
    if not may_have_holes:
        found += [
            line
            for line in lines
            if _FOLLOWED in line and not line.strip().startswith(f"-1{_FOLLOWED}")
        ]
    return found

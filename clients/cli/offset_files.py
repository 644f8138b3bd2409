"""Files of offsets as Kafka's tool for groups exports and reads them.

A line is ``TOPIC,PARTITION,OFFSET``, or ``GROUP,TOPIC,PARTITION,OFFSET`` where there are several
groups.
"""

import csv
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import click

from seglog.protocol.types import INT32_MAX, INT64_MAX

Targets: TypeAlias = dict[str | None, dict[tuple[str, int], int]]
"""Offsets by group; the group is None where the file names none."""

_STANDARD_INPUT: Final = "-"
_FIELDS: Final = 3
_DIGITS_MAX: Final = 19


def offset_lines(offsets: Mapping[str, Mapping[tuple[str, int], int]]) -> list[str]:
    """The lines of a file, of offsets by group; groups are named where there are several.

    >>> offset_lines({"g": {("t", 0): 5}})
    ['t,0,5']
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group, places in offsets.items():
        for (topic, partition), offset in places.items():
            writer.writerow([group] * (len(offsets) > 1) + [topic, str(partition), str(offset)])
    return text.getvalue().splitlines()


def read_targets(path: Path) -> Targets:
    """Read a file, or standard input for ``-``.

    Raises:
        click.UsageError: a line is wrong; names it, and the expected form.
    """
    try:
        if str(path) == _STANDARD_INPUT:
            return _parse(csv.reader(sys.stdin))
        with path.open(encoding="utf-8", newline="") as file:
            return _parse(csv.reader(file))
    except (ValueError, csv.Error) as error:
        raise click.UsageError(f"{path}: {error}") from error


def _parse(rows: Iterable[Sequence[str]]) -> Targets:
    targets: Targets = {}
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        if len(row) not in (_FIELDS, _FIELDS + 1):
            raise ValueError(
                f"line {number}: expected TOPIC,PARTITION,OFFSET, or GROUP in front of them"
            )
        group = None if len(row) == _FIELDS else row[0]
        topic, partition, offset = row[-_FIELDS:]
        place = (topic.strip(), _number(partition, INT32_MAX, number))
        offsets = targets.setdefault(group, {})
        if place in offsets:
            raise ValueError(f"line {number}: {place[0]}-{place[1]} is there twice")
        offsets[place] = _number(offset, INT64_MAX, number)
    if not targets:
        raise ValueError("there is no offset in it")
    if None in targets and len(targets) > 1:
        raise ValueError("some lines name a group and some do not")
    return targets


def _number(text: str, largest: int, line: int) -> int:
    digits = text.strip()
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX
    if not is_number or int(digits) > largest:
        raise ValueError(f"line {line}: {text!r} is no number from 0 to {largest}")
    return int(digits)

"""The only module that writes: data to standard output, messages to standard error."""

import io
import json
import os
import select
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, Final

_GAP: Final = "  "
_NOTHING: Final = "-"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_UNIT_STEP: Final = 1024
_REFRESH_S: Final = 0.2
_STANDARD_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def printable(text: str) -> str:
    r"""A text as one line that does not control a terminal; names may hold such characters.

    >>> print(printable("a\x1b[2J\nb"))
    a\x1b[2J\x0ab
    """
    return text.translate(_CONTROLS)


def print_line(text: str) -> None:
    """Write a line of data."""
    print(printable(text))


def print_file_line(text: str) -> None:
    """Write a line of a file, unchanged."""
    print(text)


def print_json(value: Any) -> None:
    """Write one JSON document."""
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf8")
    print(json.dumps(value, indent=2, ensure_ascii=not is_unicode))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write aligned columns under their names: numbers to the right, None as a dash."""
    content = list(rows)
    texts = [[_cell(value) for value in row] for row in content]
    widths = [
        max([len(name), *(len(row[number]) for row in texts)])
        for number, name in enumerate(columns)
    ]
    are_numbers = [
        all(row[number] is None or isinstance(row[number], int | float) for row in content)
        for number in range(len(columns))
    ]
    for cells in (columns, *texts):
        padded = [
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(cells, widths, are_numbers, strict=True)
        ]
        print(_GAP.join(padded).rstrip())


def _cell(value: object) -> str:
    return _NOTHING if value is None else printable(str(value))


def print_message(text: str) -> None:
    """Tell the person at the terminal something that is not data, on one line or several."""
    print("\n".join(map(printable, text.split("\n"))), file=sys.stderr)


def data_stream() -> BinaryIO:
    """Standard output for bytes, with a buffer; the caller flushes.

    ``sys.stdout.buffer`` has no buffer where PYTHONUNBUFFERED is set, and then may write only a
    part of its input.
    """
    try:
        return open(sys.stdout.fileno(), "wb", closefd=False)
    except (OSError, ValueError):
        return sys.stdout.buffer  # in a test, where there is no descriptor


def open_standard_streams() -> None:
    """Put the null device where a standard stream is closed; let every text be printed.

    Else the next socket gets its number: printed text goes there, and libuv ends the process.
    """
    for descriptor, (name, mode) in enumerate(_STANDARD_STREAMS):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:  # which is what Python makes of a closed one
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Characters that the terminal's encoding lacks are shown as \\xHH.
        sys.stdout.reconfigure(errors="backslashreplace")


def is_data_wanted() -> bool:
    """Whether standard output is still read; a closed pipe shows only on a poll or a write."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return True  # in a test, where there is no descriptor
    poll = select.poll()
    poll.register(descriptor, 0)
    return not poll.poll(0)


def flush_data() -> None:
    """Write buffered output now, so that a closed pipe shows here and not at the exit."""
    sys.stdout.flush()


def drop_data() -> None:
    """Standard output is not read any more: drop the buffered rest."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def size_text(size_bytes: int) -> str:
    """A size for people, e.g. ``1.5 MiB``.

    >>> size_text(1536)
    '1.5 KiB'
    """
    if size_bytes < _UNIT_STEP:
        return f"{size_bytes} B"
    size = float(size_bytes)
    unit = 0
    while size >= _UNIT_STEP and unit + 1 < len(_UNITS):
        size /= _UNIT_STEP
        unit += 1
    return f"{size:.1f} {_UNITS[unit]}"


def time_text(timestamp_ms: int) -> str | None:
    """A time in UTC, None where there is none; the bare number where no calendar has it.

    >>> time_text(1372896000000)
    '2013-07-04T00:00:00.000Z'
    """
    if timestamp_ms < 0:
        return None
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"


class LiveLine:
    """A line on a terminal that changes in place; elsewhere it does not exist."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._width = 0
        self._next_s = 0.0

    def show(self, text: str) -> None:
        """Put ``text`` in the place of the line, at most five times a second."""
        now_s = time.monotonic()
        if not self._is_shown or now_s < self._next_s:
            return
        self._next_s = now_s + _REFRESH_S
        print("\r" + text.ljust(self._width), end="", file=sys.stderr, flush=True)
        self._width = len(text)

    def clear(self) -> None:
        """Take the line away, before something else is written."""
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)
            self._width = 0
            self._next_s = 0.0

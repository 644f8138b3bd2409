"""How the daemon's events are written: one a line, as ``key=value`` or as JSON.

Messages in the code have the form ``event=name key=value ...`` already; here they get time, level
and origin, and a traceback becomes one more value of the same line.
"""

import json
import logging
import math
import re
import time
from collections import deque
from typing import Final

from seglog.broker.runtime.line_output import STANDARD_ERROR, LineOutput

logger = logging.getLogger(__name__)

LOG_FORMATS: Final = ("text", "json")

_PAIR: Final = r'([A-Za-z_][\w.-]*)=("(?:[^"\\]|\\.)*"|\S*)'
_CONVERSION: Final = r"%[-+ #0]*\d*(?:\.\d+)?[a-zA-Z%]"
_PAIRS: Final = re.compile(_PAIR)
_CONVERSIONS: Final = re.compile(_CONVERSION)
_PARTS: Final = re.compile(f"{_PAIR}|{_CONVERSION}")
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
"""Characters that end a line or move the cursor of a terminal: names from clients may hold them."""
_ESCAPED: Final = _CONTROLS | str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})


def set_up_logging(log_format: str, level: str) -> None:
    """Write events of this level and above to standard error, without waiting for its reader."""
    handler = _LineHandler(STANDARD_ERROR)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    STANDARD_ERROR.on_dropped = _log_drops
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _log_drops(count: int) -> None:
    logger.warning("event=lines-dropped count=%d", count)


class _LineHandler(logging.Handler):
    def __init__(self, output: LineOutput) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except (TypeError, ValueError) as error:
            # An event whose values do not fit its text must not end the work that it reports.
            logger.error(  # noqa: TRY400 - the traceback is that of logging itself
                "event=unreadable-event text=%r args=%s error=%r",
                str(record.msg),
                repr(record.args),
                str(error),
            )
            return
        self._output.write(line)


class TextFormatter(logging.Formatter):
    """``time=... level=... logger=... event=... key=value``."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        message = record.getMessage().translate(_ESCAPED)
        if not message.startswith("event="):
            message = f"message={json.dumps(message, ensure_ascii=False)}"
        line = (
            f"time={_timestamp(record.created)} level={record.levelname.lower()} "
            f"logger={record.name} {message}"
        )
        traceback = self._traceback(record)
        return f"{line} traceback={json.dumps(traceback)}" if traceback else line

    def _traceback(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info else ""


class JsonFormatter(TextFormatter):
    """The same as one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        message = record.getMessage()
        fields: dict[str, object] = {
            "time": _timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if message.startswith("event="):
            fields |= _fields_of(record)
        else:
            fields["message"] = message
        traceback = self._traceback(record)
        if traceback:
            fields["traceback"] = traceback
        return json.dumps(fields, ensure_ascii=False)


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    """The values of an event with their types, as they were before they became part of a line."""
    if not isinstance(record.args, tuple) or not record.args:
        return _pairs_of(record.getMessage())
    values = deque(record.args)
    fields: dict[str, object] = {}
    for part in _PARTS.finditer(str(record.msg)):
        if part[1] is None:
            # Pairs that were put together elsewhere.
            fields |= _pairs_of(part[0] % values.popleft())
            continue
        text = _unquote(part[2])
        conversions = [each for each in _CONVERSIONS.findall(text) if each != "%%"]
        taken = [values.popleft() for _ in conversions]
        fields[part[1]] = _typed(text, taken[0]) if conversions == [text] else text % tuple(taken)
    return fields


def _typed(conversion: str, value: object) -> object:
    """A value for JSON: a number stays one, rounded as the event wants it."""
    if value is None or isinstance(value, bool | str):
        return value
    text = conversion % (value,)
    if isinstance(value, int | float) and math.isfinite(value):
        number: object = json.loads(text)
        return number
    return text


def _pairs_of(message: str) -> dict[str, object]:
    return {key: _unquote(value) for key, value in _PAIRS.findall(message)}


def _unquote(value: str) -> str:
    if value.startswith('"') and value.endswith('"') and len(value) > 1:
        return value[1:-1].replace('\\"', '"')
    return value


def _timestamp(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds * 1000) % 1000:03d}Z"

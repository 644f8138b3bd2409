"""How the daemon's events are written: one a line, as ``key=value`` or as JSON.

Messages in the code have the form ``event=name key=value ...`` already; here they get time, level
and origin, and a traceback becomes one more value of the same line.
"""

import json
import logging
import re
import sys
import time
from typing import Final

LOG_FORMATS: Final = ("text", "json")

_PAIR: Final = re.compile(r'([A-Za-z_][\w.-]*)=("(?:[^"\\]|\\.)*"|\S*)')
_LINE_BREAKS: Final = str.maketrans({"\n": "\\n", "\r": "\\r"})


def set_up_logging(log_format: str, level: str) -> None:
    """Write events of this level and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.raiseExceptions = False  # standard error may be a pipe that nobody reads any more


class TextFormatter(logging.Formatter):
    """``time=... level=... logger=... event=... key=value``."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        message = record.getMessage().translate(_LINE_BREAKS)
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
            fields |= {key: _unquote(value) for key, value in _PAIR.findall(message)}
        else:
            fields["message"] = message
        traceback = self._traceback(record)
        if traceback:
            fields["traceback"] = traceback
        return json.dumps(fields, ensure_ascii=False)


def _unquote(value: str) -> str:
    if value.startswith('"') and value.endswith('"') and len(value) > 1:
        return value[1:-1].replace('\\"', '"')
    return value


def _timestamp(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds * 1000) % 1000:03d}Z"

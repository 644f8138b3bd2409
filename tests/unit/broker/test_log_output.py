"""Events of the daemon: one a line, whatever is in them."""

import json
import logging

import pytest

from seglog.broker.log_output import JsonFormatter, TextFormatter


def record(message: str, *values: object, error: BaseException | None = None) -> logging.LogRecord:
    made = logging.LogRecord(
        "seglog.x",
        logging.WARNING,
        "",
        1,
        message,
        values,
        (type(error), error, None) if error else None,
    )
    made.created = 1_700_000_000.25
    return made


def test_event_is_hard_to_find() -> None:
    """Time in UTC, level, origin, and what the code said."""
    line = TextFormatter().format(record("event=idle peer=%s", "1.2.3.4:5"))
    assert line == (
        "time=2023-11-14T22:13:20.250Z level=warning logger=seglog.x event=idle peer=1.2.3.4:5"
    )


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_event_takes_several_lines(formatter: logging.Formatter) -> None:
    """Neither line breaks in values nor tracebacks break the line."""
    error = ValueError("first\nsecond")
    line = formatter.format(record('event=bad value="%s"', "a\nb\r\n", error=error))
    assert "\n" not in line
    assert "\r" not in line
    assert "ValueError" in line
    assert "first\\nsecond" in line


def test_json_loses_values() -> None:
    """Every pair of the event is a field, quotes taken away; other messages stay whole."""
    fields = json.loads(
        JsonFormatter().format(record('event=cut peer=%s reason="no \\"room\\" left"', "[::1]:9"))
    )
    assert fields == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "seglog.x",
        "event": "cut",
        "peer": "[::1]:9",
        "reason": 'no "room" left',
    }
    fields = json.loads(JsonFormatter().format(record("some library says x=1\n")))
    assert fields["message"] == "some library says x=1\n"
    line = TextFormatter().format(record("some library says"))
    assert line.endswith('message="some library says"')

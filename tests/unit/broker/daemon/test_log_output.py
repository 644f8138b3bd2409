"""Events of the daemon: one a line, whatever is in them."""

import json
import logging

import pytest

from seglog.broker.daemon.log_output import JsonFormatter, TextFormatter


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


def test_a_name_writes_to_the_terminal_of_who_reads_the_log() -> None:
    """A client or group may be called whatever it likes."""
    line = TextFormatter().format(record('event=x client_id="%s"', "a\x1b[2J\x9b\tb\0größe"))
    assert line.endswith('client_id="a\\x1b[2J\\x9b\\tb\\x00größe"')


def test_json_numbers_are_text_or_text_looks_like_numbers() -> None:
    """A search for slow starts compares numbers; an id of digits alone stays an id."""
    line = JsonFormatter().format(
        record(
            'event=x n=%d seconds=%.3f share=%s none=%s yes=%s id=%s pair=%d-%d bad=%f hex="%s"%s',
            12, 1.23456, 0.5, None, True, "0042", 1, 2, float("nan"), "16030100",
            ' hint="a b" late=3',
        )
    )  # fmt: skip
    fields = json.loads(line, parse_constant=str)
    del fields["time"], fields["level"], fields["logger"]
    assert fields == {
        "event": "x", "n": 12, "seconds": 1.235, "share": 0.5, "none": None, "yes": True,
        "id": "0042", "hex": "16030100", "pair": "1-2", "bad": "nan", "hint": "a b", "late": "3",
    }  # fmt: skip


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
    values = ("/d", "no room left", "it's full: x=2", ["a"])
    fields = json.loads(
        JsonFormatter().format(
            record("event=cut path=%s/%%s error=%s reason=%r names=%s why=none", *values)
        )
    )
    assert fields["path"] == "/d/%s"
    assert fields["error"] == "no room left"
    assert fields["reason"] == "it's full: x=2"
    assert fields["names"] == "['a']"
    assert fields["why"] == "none"
    fields = json.loads(JsonFormatter().format(record("some library says x=1\n")))
    assert fields["message"] == "some library says x=1\n"
    line = TextFormatter().format(record("some library says"))
    assert line.endswith('message="some library says"')

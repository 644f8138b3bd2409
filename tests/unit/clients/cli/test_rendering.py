"""What people see."""

import io
import json
import sys

import pytest

from seglog.clients.cli import rendering


def test_columns_do_not_line_up(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("flights", 1, None, "x"), ("a", 10, None, None)]
    rendering.print_table(("TOPIC", "OFFSET", "LAG", "STATE"), rows)
    assert capsys.readouterr().out == (
        "TOPIC    OFFSET  LAG  STATE\nflights       1    -  x\na            10    -  -\n"
    )


def test_a_name_writes_to_the_terminal_or_makes_two_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A group may be called whatever its client likes."""
    rendering.print_table(("GROUP",), [("red\x1b[31m",), ("a\nb",), ("gr\u00f6\u00dfe",)])
    rendering.print_line("c\x9b2J\x00d")
    assert capsys.readouterr().out == (
        "GROUP\nred\\x1b[31m\na\\x0ab\ngr\u00f6\u00dfe\nc\\x9b2J\\x00d\n"
    )


def test_an_empty_table_has_no_columns(capsys: pytest.CaptureFixture[str]) -> None:
    rendering.print_table(("A", "B"), [])
    assert capsys.readouterr().out == "A  B\n"


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1 << 30, "1.0 GiB"),
        (1 << 62, "4096.0 PiB"),
    ],
)
def test_a_size_has_another_unit(size_bytes: int, expected: str) -> None:
    assert rendering.size_text(size_bytes) == expected


@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [
        (-1, None),
        (0, "1970-01-01T00:00:00.000Z"),
        (1372896000123, "2013-07-04T00:00:00.123Z"),
        # In the wrong unit: still shown, as what it is.
        (1372896000123456789, "1372896000123456789"),
    ],
)
def test_a_timestamp_cannot_be_shown(timestamp_ms: int, expected: str | None) -> None:
    assert rendering.time_text(timestamp_ms) == expected


def test_a_live_line_litters_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    live = rendering.LiveLine()
    live.show("50 %")
    live.clear()
    assert capsys.readouterr().err == ""


def test_a_terminal_without_unicode_ends_in_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """LC_ALL=en_US.ISO-8859-1, PYTHONIOENCODING=ascii: what it has no signs for is escaped."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    rendering.open_standard_streams()
    rendering.print_line("größe")
    rendering.print_json({"group": "größe\U0001f600"})
    rendering.flush_data()
    first, document = raw.getvalue().split(b"\n", 1)
    assert first == b"gr\\xf6\\xdfe"
    assert json.loads(document) == {"group": "größe\U0001f600"}

"""Values on the command line."""

import click
import pytest

from seglog.clients import Last, Offset, Timestamp
from seglog.clients.cli import parameters


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", "earliest"),
        ("beginning", "earliest"),
        ("latest", "latest"),
        ("end", "latest"),
        ("0", Offset(0)),
        ("1372896000000", Offset(1372896000000)),
        ("-10", Last(10)),
        # Kafka's -1 and -2 for latest and earliest belong to the question for offsets.
        ("-1", Last(1)),
        ("@1372896000000", Timestamp(1372896000000)),
        ("2013-07-04T00:00Z", Timestamp(1372896000000)),
    ],
)
def test_a_start_means_something_else(text: str, expected: object) -> None:
    assert parameters.start_point(text) == expected


@pytest.mark.parametrize("text", ["", "max-timestamp", "--5", "1.5", "yesterday", "9" * 20])
def test_a_start_that_means_nothing_is_taken(text: str) -> None:
    with pytest.raises(click.BadParameter, match="expected earliest, latest, an offset"):
        parameters.start_point(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-1", "latest"),
        ("-2", "earliest"),
        ("-3", "max_timestamp"),
        ("max-timestamp", "max_timestamp"),
        ("1372896000000", 1372896000000),
        ("2013-07-04T00:00Z", 1372896000000),
    ],
)
def test_a_question_for_offsets_means_something_else(text: str, expected: object) -> None:
    assert parameters.time_question(text) == expected


def test_a_time_without_zone_is_taken_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    assert parameters.instant("2013-07-04") == 1372896000000
    assert capsys.readouterr().err == "2013-07-04 has no time zone and is taken as UTC\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\t", b"\t"),
        (r"a\nb\r\0\\", b"a\nb\r\0\\"),
        (r"\x00\xfF", b"\x00\xff"),
        ("ü", "ü".encode()),
        ("\udcff", b"\xff"),
    ],
)
def test_an_escape_becomes_other_bytes(text: str, expected: bytes) -> None:
    assert parameters.escaped_bytes(text) == expected


@pytest.mark.parametrize("text", ["\\", r"\q", r"\x1", r"\xg0"])
def test_an_escape_that_does_not_exist_is_passed_on(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"escape|hexadecimal"):
        parameters.escaped_bytes(text)


@pytest.mark.parametrize("text", ["", "1", "1:", ":5", "a:1", "1:-2", "1:1:1", "-1:5", "1:--1"])
def test_a_partition_offset_is_misread(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not PARTITION:OFFSET"):
        parameters.partition_offset(text)


def test_a_partition_offset_is_refused() -> None:
    assert parameters.partition_offset("3:10") == (3, 10)
    assert parameters.partition_offset("0:-1") == (0, -1)


def test_a_setting_with_an_equals_sign_is_cut() -> None:
    assert parameters.key_value("a=b=c") == ("a", "b=c")
    assert parameters.key_value("a=") == ("a", "")
    for text in ("a", "=b"):
        with pytest.raises(click.BadParameter, match="is not KEY=VALUE"):
            parameters.key_value(text)


def test_the_last_of_two_settings_of_one_key_wins_in_silence() -> None:
    with pytest.raises(click.UsageError, match="a is given twice"):
        parameters.as_mapping([("a", "1"), ("a", "2")], "--config")


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("1700000000", True),
        ("@1700000000", True),
        ("1700000000000", False),
        ("0", False),
        ("5000", False),
        ("1972-01-01T00:00Z", False),
    ],
)
def test_seconds_in_the_place_of_milliseconds_are_told(
    text: str, is_told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """U52: records of today went to January 1970 without a word."""
    parameters.instant(text)
    assert (f"write {text}000" in capsys.readouterr().err) is is_told

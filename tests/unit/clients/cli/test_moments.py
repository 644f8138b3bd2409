"""Times on the command line: read strictly, or refused with what would be right."""

from datetime import timedelta

import pytest

from seglog.clients.cli.moments import Moment, parse_duration, parse_moment

NOON_UTC_MS = 1372939200000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2013-07-04T12:00Z", Moment(NOON_UTC_MS)),
        ("2013-07-04T12:00:00Z", Moment(NOON_UTC_MS)),
        ("2013-07-04 12:00:00.5+00:00", Moment(NOON_UTC_MS + 500)),
        ("2013-07-04T14:00+02:00", Moment(NOON_UTC_MS)),
        ("2013-07-04T08:00-0400", Moment(NOON_UTC_MS)),
        ("2013-07-04T12:00", Moment(NOON_UTC_MS, assumed_zone=True)),
        ("2013-07-04", Moment(NOON_UTC_MS - 12 * 3_600_000, assumed_zone=True)),
        # Rounded up: nothing before the moment is found.
        ("2013-07-04T12:00:00.000001Z", Moment(NOON_UTC_MS + 1)),
        ("1970-01-01T00:00Z", Moment(0)),
        ("@1372939200000", Moment(NOON_UTC_MS)),
        ("1372939200000ms", Moment(NOON_UTC_MS)),
        ("now", Moment(77)),
    ],
)
def test_a_time_means_another_moment(text: str, expected: Moment) -> None:
    assert parse_moment(text, 77) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2013-7-4",
        "20130704",
        "2013-W27-4",
        "2013-02-30",
        "2013-07-04T25:00Z",
        "2013-07-04T12Z",
        "2013-07-04T12:00:00.1234567Z",
        "2013-07-04T12:00 CET",
        "1969-12-31T23:59Z",
        "1372939200000",
        "-5",
        "@-5",
        "@9223372036854775808",
        "\N{ARABIC-INDIC DIGIT TWO}013-07-04",
    ],
)
def test_what_is_no_time_is_guessed_at(text: str) -> None:
    with pytest.raises(ValueError, match=r"no time|before 1970|beyond"):
        parse_moment(text, 0)


def test_a_bare_number_is_refused_where_only_a_time_can_be_meant() -> None:
    assert parse_moment("1372939200000", 0, bare_number=True) == Moment(NOON_UTC_MS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P1D", timedelta(days=1)),
        ("PT2H", timedelta(hours=2)),
        ("PT30M", timedelta(minutes=30)),
        ("PT0.5S", timedelta(milliseconds=500)),
        ("P1DT2H3M4S", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("PT0S", timedelta(0)),
    ],
)
def test_a_duration_means_another_time(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "1h", "PT1", "P1M", "PT-1H", "pt1h", "P1H"]
)
def test_a_word_that_is_no_duration_is_taken_for_one(text: str) -> None:
    with pytest.raises(ValueError, match="for example PT30M"):
        parse_duration(text)

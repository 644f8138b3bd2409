"""Values as text."""

import pytest

from seglog.config.endpoints import Endpoint
from seglog.config.values import format_value, parse_bool, parse_double, parse_integer, parse_list


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (7, "7"),
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1.0, "1.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (0.00012345, "1.2345E-4"),
        (-2.5e-10, "-2.5E-10"),
        (1e22, "1.0E22"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (("delete", "compact"), "delete,compact"),
        (frozenset({"delete", "compact"}), "compact,delete"),
        ((), ""),
        (Endpoint("A", "::1", 1), "A://[::1]:1"),
        ((Endpoint("A", "h", 1), Endpoint("B", "", 2)), "A://h:1,B://:2"),
    ],
)
def test_a_value_is_printed_unlike_kafka_does(value: object, text: str | None) -> None:
    assert format_value(value) == text


@pytest.mark.parametrize("text", ["", "1_000", "1.0", "0x10", "1 2", "\u0661", "1e3", "one"])
def test_python_only_spellings_of_integers_are_taken(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        parse_integer(text)


def test_legal_spellings_are_refused() -> None:
    assert parse_integer(" +12 ") == 12
    assert parse_bool(" TRUE ") is True
    assert parse_bool("False") is False
    assert parse_double("1e3") == 1000.0
    assert parse_list(" a, ,b ,") == ("a", "b")


@pytest.mark.parametrize("text", ["nan", "inf", "1_0", "x", ""])
def test_numbers_that_are_none_are_taken(text: str) -> None:
    with pytest.raises(ValueError, match="number"):
        parse_double(text)


@pytest.mark.parametrize("text", ["yes", "1", ""])
def test_words_that_are_no_switch_are_taken(text: str) -> None:
    with pytest.raises(ValueError, match="true or false"):
        parse_bool(text)

"""How records are written."""

import pytest

from seglog.clients import Record
from seglog.clients.cli.record_output import (
    Fields,
    fields_format,
    template_format,
    value_format,
)

RECORD = Record("t", 3, 42, 1700000000000, b"key", b"v\xff", (("a", b"1"), ("b", None)))
EMPTY = Record("t", 0, 0, 0, None, None, ())


def test_bytes_that_are_no_text_are_changed() -> None:
    assert value_format(b"\n", b"null")(RECORD) == b"v\xff\n"
    assert value_format(b"", b"")(EMPTY) == b""
    assert value_format(b"\n", b"null")(EMPTY) == b"null\n"


def test_fields_come_in_another_order_than_kafkas() -> None:
    every = Fields(timestamp=True, partition=True, offset=True, headers=True, key=True)
    write = fields_format(every, b"\t", b"\n", b"null")
    assert write(RECORD) == b"1700000000000\t3\t42\ta:1,b:null\tkey\tv\xff\n"
    assert write(EMPTY) == b"0\t0\t0\tNO_HEADERS\tnull\tnull\n"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (b"%t %p %o %k %s\n", b"t 3 42 key v\xff\n"),
        (b"%T|%K|%S|%h", b"1700000000000|3|2|a=1,b=?"),
        (b"100%% \xc3\xbc \xff", b"100% \xc3\xbc \xff"),
        (b"", b""),
    ],
)
def test_a_token_stands_for_something_else(template: bytes, expected: bytes) -> None:
    assert template_format(template, b"?")(RECORD) == expected


def test_a_null_has_a_length() -> None:
    assert template_format(b"%k%s %K %S", b"")(EMPTY) == b" -1 -1"


@pytest.mark.parametrize("template", [b"%q", b"%", b"a%\n"])
def test_a_token_that_does_not_exist_is_passed_over(template: bytes) -> None:
    with pytest.raises(ValueError, match="there is no token"):
        template_format(template, b"")

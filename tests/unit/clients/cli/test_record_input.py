"""Records out of lines."""

import io
import json

import click
import pytest

from seglog.clients import Record
from seglog.clients.cli.record_input import (
    InputRecord,
    JsonFormat,
    LineFormat,
    read_whole,
    split_stream,
)
from seglog.clients.cli.record_output import json_format


class Pipe(io.BytesIO):
    """Gives what was written piece by piece, as a pipe does."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__()
        self.pieces = list(pieces)

    def read1(self, _size: int = -1) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


def lines_of(*pieces: bytes, delimiter: bytes = b"\n") -> list[list[bytes]]:
    return list(split_stream(Pipe(*pieces), delimiter))


def test_a_whole_input_without_an_end_takes_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_whole(Pipe(b"a\n", b"b")) == b"a\nb"
    monkeypatch.setattr("seglog.clients.cli.record_input.LINE_BYTES_MAX", 2)
    with pytest.raises(click.ClickException, match="more than 2 bytes of input"):
        read_whole(Pipe(b"a\n", b"b"))


def test_a_line_waits_for_the_buffer_to_be_full() -> None:
    assert lines_of(b"a\nb\n", b"c\n") == [[b"a", b"b"], [b"c"]]


def test_a_line_is_torn_where_two_reads_meet() -> None:
    assert lines_of(b"a", b"b\nc", b"\n") == [[b"ab"], [b"c"]]
    assert lines_of(b"a<", b">b", delimiter=b"<>") == [[b"a"], [b"b"]]
    assert lines_of(b"a<", b"<>b<>", delimiter=b"<>") == [[b"a<", b"b"]]


def test_the_last_line_is_lost_without_its_end() -> None:
    assert lines_of(b"a\nb") == [[b"a"], [b"b"]]
    assert lines_of(b"") == []
    assert lines_of(b"\n\n") == [[b"", b""]]


def test_a_value_with_the_separator_is_cut() -> None:
    lines = LineFormat(key_separator=b":")
    assert lines.parse(b"k:v:w", 1) == InputRecord(b"k", b"v:w", None, (), None)
    assert lines.parse(b":", 1) == InputRecord(b"", b"", None, (), None)


def test_a_line_without_separator_becomes_a_record() -> None:
    with pytest.raises(click.ClickException, match="line 7 has no key separator ':'"):
        LineFormat(key_separator=b":").parse(b"value", 7)


def test_a_null_marker_is_sent_as_text() -> None:
    lines = LineFormat(key_separator=b":", null_marker=b"NULL")
    assert lines.parse(b"k:NULL", 1).value is None
    assert lines.parse(b"NULL:v", 1).key is None
    assert lines.parse(b"k:", 1).value == b""
    assert LineFormat(null_marker=b"").parse(b"", 1).value is None


def test_headers_of_a_line_and_of_all_lines_lose_each_other() -> None:
    lines = LineFormat(header_separator=b"\t", headers=(("all", b"1"),), key_separator=b"\t")
    record = lines.parse(b"a:1,b:x:y\tk\tv", 1)
    assert record.headers == (("all", b"1"), ("a", b"1"), ("b", b"x:y"))
    assert (record.key, record.value) == (b"k", b"v")
    assert lines.parse(b"\tk\tv", 1).headers == (("all", b"1"),)
    with pytest.raises(click.ClickException, match=r"line 2: header b'a' is not NAME:VALUE"):
        lines.parse(b"a\tk\tv", 2)


@pytest.mark.parametrize(
    "record",
    [
        Record("t", 3, 5, 1700000000000, b"key", b"value", (("h", b"v"), ("h", None))),
        Record("t", 0, 0, 0, None, None, ()),
        Record("t", 0, 0, 0, b"", b"", (("\u00fc", b"\xff"),)),
        Record("t", 0, 0, 0, b"\xff\x00", b"\n\x80", ()),
    ],
)
def test_a_record_comes_back_different_from_its_json_line(record: Record) -> None:
    lines = JsonFormat(keep_partition=True, fallback=LineFormat())
    line = json_format(record)
    assert line.count(b"\n") == 1
    back = lines.parse(line, 1)
    assert back[:3] == (record.key, record.value, record.timestamp_ms)
    assert tuple(back.headers) == record.headers
    assert back.partition == record.partition


def test_what_json_does_not_say_is_not_taken_from_the_options() -> None:
    fallback = LineFormat(key=b"k", timestamp_ms=5, partition=2, headers=(("h", b"1"),))
    lines = JsonFormat(keep_partition=False, fallback=fallback)
    record = lines.parse(b'{"value": {"a": [1, "\\u00fc"]}, "partition": 9}', 1)
    assert record.key == b"k"
    assert json.loads(record.value or b"") == {"a": [1, "\u00fc"]}
    assert (record.timestamp_ms, record.partition) == (5, 2)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{",
        b'"text"',
        b'{"value_base64": "%"}',
        b'{"value": "v", "timestamp_ms": "now"}',
        b'{"key":"N1","val":"y"}',
        b'{"id":1,"name":"a"}',
        b'{"Key":"k","Value":"v"}',
        b'{"key":"k"}',
        b'{"value":"v","values":1}',
        b'{"value":"v","value":"w"}',
        b'{"value":"v","value_base64":"dg=="}',
        b'{"value":NaN}',
        b'{"value":1} 2',
        b'{"value":1,}',
        b'{"value" 1}',
        b'{"value":"v","headers":[{"name":"h","valu":"x"}]}',
        b'{"value":"v","headers":{"name":"h"}}',
        b'{"value":"v","headers":[{"value":"x"}]}',
        b'{"value":"\xff"}',
        b'{"value": "v", "headers": [1]}',
        b'{"value": "v", "headers": [{"value": "x"}]}',
        b"\xff",
    ],
)
def test_what_is_no_record_in_json_ends_in_a_traceback(line: bytes) -> None:
    with pytest.raises(click.ClickException, match="line 3 is no record in JSON"):
        JsonFormat(keep_partition=False, fallback=LineFormat()).parse(line, 3)


def test_a_line_that_deletes_says_so() -> None:
    """U20: any object without a value was a deletion of what is there under its key."""
    lines = JsonFormat(keep_partition=False, fallback=LineFormat())
    assert lines.parse(b'{"key":"N1","value":null}', 1)[:2] == (b"N1", None)
    with pytest.raises(click.ClickException, match=r"no field 'val'; there are headers, key"):
        lines.parse(b'{"key":"N1","val":"y"}', 1)
    with pytest.raises(click.ClickException, match='it has no "value"; for a deletion say'):
        lines.parse(b'{"key":"N1"}', 1)


@pytest.mark.parametrize(
    "text",
    [
        "1e400",
        "1.10",
        "-0",
        "123456789012345678901234567890",
        '{"a" : 1,  "b":[ 1.0 , {} ] }',
        '{"a": 1, "a": 2}',
        '"\u00e9"',
        "true",
        "[ ]",
    ],
)
def test_a_value_that_is_data_in_json_keeps_its_bytes(text: str) -> None:
    """U20"""
    lines = JsonFormat(keep_partition=False, fallback=LineFormat())
    line = ' { "key" : @ , "headers" : [ { "name" : "h" , "value" : @ } ] , "value" : @ } '
    record = lines.parse(line.replace("@", text).encode(), 1)
    expected = json.loads(text) if text.startswith('"') else text
    assert record.value == record.key == expected.encode()
    assert list(record.headers) == [("h", expected.encode())]

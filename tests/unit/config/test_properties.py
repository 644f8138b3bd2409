"""The parser of Java properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.config.properties import Property, format_property, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", [("a", "1")]),
        ("a = 1 ", [("a", "1 ")]),
        ("a:1", [("a", "1")]),
        ("a 1", [("a", "1")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("=1", [("", "1")]),
        ("a==1", [("a", "=1")]),
        ("  # comment\n! comment\n\n\ta=1\r\nb=2\rc=3", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("a=1,\\\n   2,\\\n   3", [("a", "1,2,3")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("a=1\\", [("a", "1")]),
        ("\\", []),
        ("a\\ b\\=c=d", [("a b=c", "d")]),
        ("a=\\t\\n\\r\\f\\z\\u00e9\\ud83d\\ude00", [("a", "\t\n\r\fz\u00e9\U0001f600")]),
        ("a=c:\\\\x#no comment", [("a", "c:\\x#no comment")]),
        ("a=1\\\n# not a comment", [("a", "1# not a comment")]),
    ],
)
def test_a_line_is_not_read_as_java_reads_it(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(key, value) for key, value, _ in parse_properties(text)] == expected


def test_line_numbers_are_lost_through_comments_and_continuations() -> None:
    assert parse_properties("# c\na=1\\\n2\n\nb=3") == [
        Property("a", "12", 2),
        Property("b", "3", 5),
    ]


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uzzzz", "a=\\u"])
def test_a_broken_escape_is_silently_taken(text: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        parse_properties(text)


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@given(key=_TEXT.filter(bool), value=_TEXT)
def test_what_is_written_is_not_read_back(key: str, value: str) -> None:
    assert parse_properties(format_property(key, value)) == [Property(key, value, 1)]


@given(st.text())
def test_text_without_escapes_is_refused(text: str) -> None:
    for entry in parse_properties(text.replace("\\u", "u")):
        assert entry.line >= 1

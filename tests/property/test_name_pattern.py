"""Patterns of names match what they match elsewhere, and never take long."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.broker.coordinator.transactions.name_pattern import (
    PLACES_MAX,
    NamePattern,
    PatternError,
)

ATOMS = st.sampled_from(
    [*"ab.-{\u00e9", "\\.", "\\d", "\\W", "\\n", "[ab]", "[^a-c]", "[]a-]", "[\\d_]"]
)
SIGNS = st.sampled_from(["", "", "*", "+", "?", "*?", "{2}", "{1,}", "{0,2}"])


def _larger(patterns):
    return st.one_of(
        st.lists(patterns, max_size=3).map("".join),
        st.lists(patterns, min_size=2, max_size=3).map("|".join).map("({})".format),
        st.tuples(patterns, SIGNS).map(lambda pair: "(?:{}){}".format(*pair)),
    )


PATTERNS = st.recursive(st.tuples(ATOMS, SIGNS).map("".join), _larger, max_leaves=8)
NAMES = st.text("ab1_.-{\n\u00e9", max_size=8)


@given(PATTERNS, st.lists(NAMES, min_size=1, max_size=8))
def test_a_pattern_matches_other_names_than_elsewhere(pattern, names):
    ours = NamePattern(pattern)
    other = re.compile(pattern, re.ASCII)
    for name in names:
        assert ours.matches(name) == (other.fullmatch(name) is not None), (pattern, name)


@given(st.text("ab()[]{}^$|*+?\\-.,01:dP", max_size=12))
def test_a_pattern_breaks_the_reader(pattern):
    """What is taken is taken by ``re`` as well, and nothing else than a PatternError is raised."""
    try:
        ours = NamePattern(pattern)
    except PatternError:
        return
    ours.matches("ab01" * 50)
    if "[" not in pattern and "{," not in pattern:
        re.compile(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|aa)+b", "(.*)*b", "(a?){100}a{100}b", "(x+x+)+y|(a|a)*b"]
)
def test_a_pattern_takes_longer_for_each_letter(pattern):
    """Each letter looks at each place of the pattern once, in whatever way they can be combined."""
    ours = NamePattern(pattern)
    state = ours.start
    for _ in range(150):
        state = ours.step(state, "a")
        assert len(state) <= PLACES_MAX
    assert not ours.accepts(state)
    assert ours.accepts(ours.step(state, "b"))


NOT_UNDERSTOOD = [
    *(
        "(",
        ")",
        "[",
        "[b-a]",
        "a**",
        "+",
        "a{2,1}",
        "\\",
        "\\b",
        "\\1",
        "(?i)a",
        "(?=a)",
        "(?P<n>a)",
    ),
    *("(?P<n>a)", "a$b", "(^a)", "[[:alpha:]]", "a{1001}", "(a{999}){999}", "((){999}){999}"),
    "(" * 60 + ")" * 60,
]


@pytest.mark.parametrize("pattern", NOT_UNDERSTOOD)
def test_a_pattern_that_is_not_understood_matches_something(pattern):
    with pytest.raises(PatternError):
        NamePattern(pattern)


def test_signs_around_an_alternative_mean_something():
    pattern = NamePattern("^orders-[0-9]+$|^x{,3}$")
    assert [pattern.matches(name) for name in ("orders-17", "orders-", "x{,3}", "xx")] == [
        True,
        False,
        True,
        False,
    ]

"""NamePattern: does a name match a regular expression that a client has sent?

The standard library's ``re`` tries one way after the other: a pattern such as ``(a+)+b`` keeps it
busy for years over forty letters, and nothing else in the process runs meanwhile. Here all ways are
followed at once (Thompson's construction), so a character costs at most one look at each place in
the pattern. What comes out is the same, as only whole names are matched and nothing is captured.

Why not a library: ``google-re2`` has no wheels for musl or 32-bit ARM, where an installation would
need RE2's sources; ``regex`` has a timeout for matching, but some patterns of a few hundred
characters take all memory while they are compiled.

The syntax is that of RE2, which Kafka's broker takes, as far as it is about characters: literals,
``.``, classes, ``\\d \\w \\s`` and their opposites (ASCII), groups, ``|``, ``* + ?`` and ``{m,n}``,
and ``^`` and ``$`` around a whole alternative, where they say nothing new.
"""

import string
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

PLACES_MAX: Final = 1_000
"""How many places a pattern may have once its counted repetitions are written out."""
_CHARACTERS_MAX: Final = 1_000
_DEPTH_MAX: Final = 50
_RANGES_MAX: Final = 100
_CACHED_STEPS_MAX: Final = 10_000

_Test: TypeAlias = Callable[[str], bool]
State: TypeAlias = frozenset[int]
"""The places in the pattern where a name may be after some of its characters."""


class PatternError(ValueError):
    """A pattern that is not understood, or too large."""


class _Node(NamedTuple):
    """A part of a pattern: a test of one character, or parts put together.

    ``kind`` is "test", "all" (one after the other), "any" (one of them) or "repeat" (the only part,
    ``low`` to ``high`` times; without end if ``high`` is None).
    """

    kind: str
    test: _Test | None = None
    parts: tuple["_Node", ...] = ()
    low: int = 0
    high: int | None = 0


class NamePattern:
    """A pattern for whole names; see the module for its syntax.

    Args:
        text: the pattern.

    Raises:
        PatternError: it is not understood, or too large.
    """

    def __init__(self, text: str) -> None:
        if len(text) > _CHARACTERS_MAX:
            raise PatternError(f"the pattern has more than {_CHARACTERS_MAX} characters")
        self._tests: list[_Test | None] = []
        self._targets: list[list[int]] = []
        node = _Parser(text).parse()
        end = self._place()
        begin = self._build(node, end)
        self._end = end
        self._steps: dict[tuple[State, str], State] = {}
        self.start: State = self._closure({begin})

    def step(self, state: State, character: str) -> State:
        """Where a name may be after one more character; empty if it does not match any more."""
        key = (state, character)
        known = self._steps.get(key)
        if known is None:
            reached: set[int] = set()
            for place in state:
                test = self._tests[place]
                if test is not None and test(character):
                    reached.update(self._targets[place])
            known = self._closure(reached)
            if len(self._steps) >= _CACHED_STEPS_MAX:
                self._steps.clear()
            self._steps[key] = known
        return known

    def accepts(self, state: State) -> bool:
        """Whether a name that ends here matches."""
        return self._end in state

    def matches(self, name: str) -> bool:
        """Whether a name matches."""
        state = self.start
        for character in name:
            state = self.step(state, character)
        return self.accepts(state)

    def _closure(self, places: set[int]) -> State:
        """These places and all that are reached from them without a character."""
        found = set(places)
        waiting = list(places)
        while waiting:
            place = waiting.pop()
            if self._tests[place] is None:
                for target in self._targets[place]:
                    if target not in found:
                        found.add(target)
                        waiting.append(target)
        return frozenset(found)

    # ---- construction, from the end to the beginning

    def _place(self, targets: list[int] | None = None, test: _Test | None = None) -> int:
        if len(self._tests) >= PLACES_MAX:
            raise PatternError(f"the pattern has more than {PLACES_MAX} places")
        self._tests.append(test)
        self._targets.append([] if targets is None else targets)
        return len(self._tests) - 1

    def _build(self, node: _Node, following: int) -> int:
        """Add the places of a part; where it begins."""
        if node.kind == "test":
            return self._place([following], node.test)
        if node.kind == "all":
            for part in reversed(node.parts):
                following = self._build(part, following)
            return following
        if node.kind == "any":
            return self._place([self._build(part, following) for part in node.parts])
        return self._build_repeat(node, following)

    def _build_repeat(self, node: _Node, following: int) -> int:
        (part,) = node.parts
        begin = following
        if node.high is None:
            begin = self._place([following])
            self._targets[begin].append(self._build(part, begin))
        else:
            for _ in range(node.high - node.low):
                begin = self._place([following, self._build(part, begin)])
        for _ in range(node.low):
            # A place of its own, so that repetitions of nothing are counted, too.
            begin = self._place([self._build(part, begin)])
        return begin


class _Parser:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def parse(self) -> _Node:
        """The whole pattern."""
        node = self._alternatives()
        if self._at < len(self._text):
            raise PatternError("a ')' without '('")
        return node

    def _peek(self) -> str:
        """The next character, empty at the end."""
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        character = self._peek()
        if not character:
            raise PatternError("the pattern ends too early")
        self._at += 1
        return character

    def _takes(self, token: str) -> bool:
        if self._text.startswith(token, self._at):
            self._at += len(token)
            return True
        return False

    def _alternatives(self) -> _Node:
        alternatives = [self._sequence()]
        while self._takes("|"):
            alternatives.append(self._sequence())
        return alternatives[0] if len(alternatives) == 1 else _Node("any", parts=(*alternatives,))

    def _sequence(self) -> _Node:
        parts = []
        is_outermost = self._depth == 0
        if is_outermost:
            self._takes("^")
        while self._peek() not in ("", "|", ")"):
            if is_outermost and self._peek() == "$":
                self._at += 1
                if self._peek() not in ("", "|"):
                    raise PatternError("'$' is possible at the end only")
                break
            parts.append(self._repeated(self._atom()))
        return _Node("all", parts=(*parts,))

    def _repeated(self, atom: _Node) -> _Node:
        bounds = self._bounds()
        if bounds is None:
            return atom
        self._takes("?")  # to prefer the shorter way changes nothing about a whole name
        if self._peek() in ("*", "+", "?") or self._bounds() is not None:
            raise PatternError("a repetition of a repetition")
        return _Node("repeat", parts=(atom,), low=bounds[0], high=bounds[1])

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._takes(sign):
                return bounds
        if self._peek() != "{":
            return None
        end = self._text.find("}", self._at)
        low, comma, high = self._text[self._at + 1 : max(end, self._at + 1)].partition(",")
        if not _is_count(low) or not (_is_count(high) or not high):
            return None  # a brace like any other character
        self._at = end + 1
        if not comma:
            return int(low), int(low)
        if high and int(high) < int(low):
            raise PatternError(f"{low} to {high} times")
        return int(low), int(high) if high else None

    def _atom(self) -> _Node:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return _Node("test", self._class())
        if character == ".":
            return _Node("test", lambda each: each != "\n")
        if character == "\\":
            escaped = self._escape()
            return _Node("test", escaped.__eq__ if isinstance(escaped, str) else escaped)
        if character in "*+?^$":
            raise PatternError(f"{character!r} at an impossible place")
        return _Node("test", character.__eq__)

    def _group(self) -> _Node:
        if not self._takes("?:") and self._peek() == "?":
            raise PatternError("groups that do more than hold together")
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise PatternError(f"more than {_DEPTH_MAX} groups in each other")
        node = self._alternatives()
        self._depth -= 1
        if not self._takes(")"):
            raise PatternError("a '(' without ')'")
        return node

    def _escape(self) -> str | _Test:
        """What follows a backslash: a character, or a kind of them."""
        character = self._next()
        if character in _KINDS:
            return _KINDS[character]
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isalnum() or not character.isascii():
            raise PatternError(f"there is no \\{character}")
        return character

    def _class(self) -> _Test:
        is_opposite = self._takes("^")
        singles: set[str] = set()
        tests: list[_Test] = [singles.__contains__]
        is_empty = True
        while is_empty or self._peek() != "]":
            if self._text.startswith("[:", self._at):
                raise PatternError("classes with names")
            item = self._class_item()
            is_empty = False
            if isinstance(item, str):
                singles.add(item)
            else:
                tests.append(item)
        self._at += 1
        if len(tests) > _RANGES_MAX:
            raise PatternError(f"a class of more than {_RANGES_MAX} ranges")
        return lambda each: any(test(each) for test in tests) is not is_opposite

    def _class_item(self) -> str | _Test:
        first = self._class_character()
        if not isinstance(first, str):
            return first
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("", "]"):
            return first
        self._at += 1
        last = self._class_character()
        if not isinstance(last, str) or last < first:
            raise PatternError("a range that ends before it begins")
        return lambda each: first <= each <= last

    def _class_character(self) -> str | _Test:
        character = self._next()
        return self._escape() if character == "\\" else character


_DIGITS: Final = frozenset(string.digits)
_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_SPACE: Final = frozenset(" \t\n\r\f")
_KINDS: Final[dict[str, _Test]] = {
    "d": _DIGITS.__contains__,
    "D": lambda each: each not in _DIGITS,
    "w": _WORD.__contains__,
    "W": lambda each: each not in _WORD,
    "s": _SPACE.__contains__,
    "S": lambda each: each not in _SPACE,
}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}


def _is_count(text: str) -> bool:
    if not (text.isascii() and text.isdigit()):
        return False
    if int(text) > PLACES_MAX:
        raise PatternError(f"{text} repetitions; at most {PLACES_MAX} are possible")
    return True

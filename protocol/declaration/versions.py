"""Ranges of message versions, written as Kafka does: ``3``, ``0-12``, ``9+``; "" is none."""

from dataclasses import dataclass
from functools import cache

_UNBOUNDED = 32767


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions from ``first`` to ``last``, both inclusive; empty where first > last."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __bool__(self) -> bool:
        return self.first <= self.last

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.last == _UNBOUNDED:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def versions(self) -> range:
        """The versions one by one; only sensible where the range is bounded."""
        return range(self.first, self.last + 1)


@cache
def version_range(text: str) -> VersionRange:
    """Parse ``text``; the empty string is the empty range."""
    if not text:
        return VersionRange(0, -1)
    if text.endswith("+"):
        return VersionRange(int(text[:-1]), _UNBOUNDED)
    first, _, last = text.partition("-")
    return VersionRange(int(first), int(last or first))

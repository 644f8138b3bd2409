"""Findings of a check: faults, and notes about oddities that are not faults."""

from enum import Enum
from typing import Any, NamedTuple


class Severity(Enum):
    """How bad a finding is: a fault makes the exit status 1."""

    FAULT = "fault"
    NOTE = "note"


class Finding(NamedTuple):
    """One finding; ``position`` is that in the file, None where the whole file is meant."""

    severity: Severity
    path: str
    text: str
    position: int | None = None

    def __str__(self) -> str:
        place = "" if self.position is None else f" at position {self.position}"
        return f"{self.severity.value}: {self.path}{place}: {self.text}"

    def as_json(self) -> dict[str, Any]:
        """The finding for scripts."""
        return {
            "severity": self.severity.value,
            "path": self.path,
            "position": self.position,
            "text": self.text,
        }


class Findings:
    """A list that grows while a check goes on."""

    def __init__(self) -> None:
        self.all: list[Finding] = []

    def __len__(self) -> int:
        return len(self.all)

    def fault(self, path: str, text: str, position: int | None = None) -> None:
        """Something is wrong."""
        self.all.append(Finding(Severity.FAULT, path, text, position))

    def note(self, path: str, text: str, position: int | None = None) -> None:
        """Something is worth knowing."""
        self.all.append(Finding(Severity.NOTE, path, text, position))

    def fault_unless(
        self, is_tolerable: bool, path: str, text: str, position: int | None = None
    ) -> None:
        """Something is wrong, unless the next start mends it anyway: then it is a note."""
        (self.note if is_tolerable else self.fault)(path, text, position)

    def count(self, severity: Severity) -> int:
        """How many there are of a severity."""
        return sum(finding.severity is severity for finding in self.all)

    @property
    def has_faults(self) -> bool:
        """Whether anything is wrong."""
        return any(finding.severity is Severity.FAULT for finding in self.all)

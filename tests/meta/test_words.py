"""Words that make a text slow to read stay out of docs, messages, docstrings and comments.

Say "the client", "the broker", "the caller" for an unknown person, and the noun of the field
instead of a clause with "what" (docs/contributing.md).
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACES = (
    "README.md",
    "CHANGELOG.md",
    "docs",
    "config",
    "broker/cleaning",
    "broker/daemon",
    "broker/listeners",
    "broker/partition",
    "broker/runtime",
    "broker/storage/cleaner",
    "broker/tools",
    "broker/errors.py",
    "clients/cli",
    "protocol/_kernel.pyx",
    "protocol/compression",
    "protocol/dialect.py",
    "protocol/limits.py",
    "protocol/records",
    "protocol/types.py",
    "protocol/wording.py",
)
SUFFIXES = {".md", ".py", ".pyi", ".pyx", ".pxi", ".properties"}
INVOLVED = re.compile(
    r"\b(whoever|whomever|nobody|somebody|anybody|everybody|someone|anyone"
    r"|what (?:is|was|are|were))\b",
    re.IGNORECASE,
)


def texts() -> Iterator[tuple[Path, str]]:
    for place in PLACES:
        path = ROOT / place
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.suffix in SUFFIXES:
                yield file, file.read_text()
    for file in sorted((ROOT / "protocol").glob("_kernel*.pxi")):
        yield file, file.read_text()


@pytest.mark.parametrize(
    "line",
    ["Whoever asks is told", "nobody waits", "it reads what is there", "what was written counts"],
)
def test_involved_words_are_recognized(line: str) -> None:
    assert INVOLVED.search(line)


def test_texts_name_the_client_the_broker_and_the_thing() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if INVOLVED.search(line)
    ]
    assert not found, "\n".join(found)

"""Words of messages for users."""

import re
from typing import Final

_TEXT_MAX: Final = 1_000
"""Characters; four bytes each are an eighth of what a text on the wire may have."""


def count_text(count: int, one: str, many: str | None = None) -> str:
    """A number of things.

    >>> count_text(1, "note"), count_text(2, "note"), count_text(2, "batch", "batches")
    ('1 note', '2 notes', '2 batches')
    """
    return f"{count} {one if count == 1 else many or one + 's'}"


def shortened(text: str) -> str:
    """A text that fits into every field and line: beginning and end of a very long one.

    Names from clients may be as long as a frame, and come back in messages.

    >>> len(shortened("x" * 70_000)), shortened("a short one")
    (1003, 'a short one')
    """
    if len(text) <= _TEXT_MAX:
        return text
    return f"{text[: _TEXT_MAX // 2]}...{text[-_TEXT_MAX // 2 :]}"


def naming(about: object, words: object) -> str:
    """A text that names its subject once: ``about: words``, or the words if they name it."""
    name, text = str(about), str(words)
    # "topic flights" is named by "topic 'flights' exists already" as well.
    kind, _, thing = name.rpartition(" ")
    quoted = rf"{re.escape(kind)}\b.*'{re.escape(thing)}'" if kind else "(?!)"
    if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])|\b{quoted}", text):
        return text
    return f"{name}: {text}"

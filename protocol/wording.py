"""Words of messages that people read."""

import re


def count_text(count: int, one: str, many: str | None = None) -> str:
    """A number of things.

    >>> count_text(1, "note"), count_text(2, "note"), count_text(2, "batch", "batches")
    ('1 note', '2 notes', '2 batches')
    """
    return f"{count} {one if count == 1 else many or one + 's'}"


def naming(about: object, words: object) -> str:
    """A text that says what it is about, once: ``about: words``, or the words if they name it."""
    name, text = str(about), str(words)
    # "topic flights" is named by "topic 'flights' exists already" as well.
    kind, _, thing = name.rpartition(" ")
    quoted = rf"{re.escape(kind)}\b.*'{re.escape(thing)}'" if kind else "(?!)"
    if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])|\b{quoted}", text):
        return text
    return f"{name}: {text}"

"""Words of messages that people read."""


def count_text(count: int, one: str, many: str | None = None) -> str:
    """A number of things.

    >>> count_text(1, "note"), count_text(2, "note"), count_text(2, "batch", "batches")
    ('1 note', '2 notes', '2 batches')
    """
    return f"{count} {one if count == 1 else many or one + 's'}"

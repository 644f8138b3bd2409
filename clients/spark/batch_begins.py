"""Where a batch really begins in a partition: pure decisions about lost records."""

from typing import NamedTuple

from seglog.protocol.types import TopicPartition


class Begin(NamedTuple):
    """Where reading begins, and the loss before it.

    Attributes:
        offset: never above the end.
        loss: one sentence about the lost records, or None.
    """

    offset: int
    loss: str | None = None


def find_begin(
    partition: TopicPartition, written: int | None, is_same: bool | None, first: int, end: int
) -> Begin:
    """Decide where a batch begins.

    Args:
        partition: for the message.
        written: where the batch before ended, None for a partition that is new to the query.
        is_same: whether the topic is the one that was read then; None if that is unknown.
        first: the first offset that there is now.
        end: where the batch ends; below ``written`` only if the log ends there.
    """
    if written is None:
        if first == 0:
            return Begin(0)
        return Begin(
            min(first, end),
            f"{partition} is new to the query, but begins at offset {first} instead of 0",
        )
    if is_same is False or (is_same is None and end < written):
        reason = "the topic was deleted and created again"
        if is_same is None:
            reason = f"the log ends before that: it has lost its end, or {reason}"
        return Begin(
            min(first, end),
            f"{partition}: wanted from offset {written} on, but {reason}; available are offsets "
            f"{first} to {end - 1}, which are read from the first on",
        )
    if end < written:
        return Begin(
            end,
            f"{partition}: wanted from offset {written} on, but the log has lost its end, "
            f"available are offsets {first} to {end - 1}",
        )
    if written < first and written < end:
        # All that is lost is named at once, also what a later batch would have read of it.
        return Begin(
            min(first, end),
            f"{partition}: offsets {written} to {first - 1} were to be read and are deleted, "
            f"available are {first} and above",
        )
    return Begin(written)

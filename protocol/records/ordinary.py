"""The fast path of produce: one call that checks an ordinary batch."""

from typing import TYPE_CHECKING

from seglog.protocol.records import kernel
from seglog.protocol.records.batch import BatchHeader
from seglog.protocol.types import Buffer

if TYPE_CHECKING or not kernel.COMPILED:
    from seglog.protocol.records._pure_batches import header_if_ordinary
else:
    from seglog.protocol._kernel import header_if_ordinary


def ordinary_header(
    view: Buffer, *, require_keys: bool, earliest_ms: int, latest_ms: int
) -> BatchHeader | None:
    """The header of a client batch that may be appended byte for byte, but for offset and epoch.

    Args:
        view: exactly one batch.
        require_keys: whether a record without key makes it special.
        earliest_ms: the earliest legal timestamp, within 64 bits; -1 is always legal.
        latest_ms: the latest legal one, within 64 bits.

    Returns:
        None if anything about the batch is unusual or wrong: ``inspect_batch`` tells what.
    """
    return header_if_ordinary(view, BatchHeader, require_keys, earliest_ms, latest_ms)

"""An exchange of segments by a test, which may wait for the disk."""

from collections.abc import Sequence

from seglog.broker.storage.errors import DiskFullError
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.segment.segment import LogSegment


def replace_segments(
    log: Log, new: Sequence[LogSegment], old: Sequence[LogSegment]
) -> list[LogSegment]:
    """Every step, as the cleaner takes them; the old segments, which the test removes."""
    exchange = log.begin_exchange(new, old)
    if exchange is None:
        return []
    try:
        exchange.announce()
    except DiskFullError:
        log.end_exchange(exchange)
        raise
    for step in exchange.steps():
        step()
        exchange.sync()
    log.end_exchange(exchange)
    return exchange.old

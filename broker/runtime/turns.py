"""Work that walks over many things, in turns of a few milliseconds.

A turn of the event loop holds up every other client. A handler that walks over the partitions,
topics or groups of a request takes them from here, and the loop serves other clients in between.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

ItemT = TypeVar("ItemT")

TURN_SECONDS: Final = 0.002
"""How long one piece of work keeps the loop before others come."""


async def in_turns(
    items: Iterable[ItemT], turn_seconds: float = TURN_SECONDS
) -> AsyncIterator[ItemT]:
    """Give out items one by one; when they have taken a turn's time, others are served first.

    Nothing that was looked at for one item holds for the next one: between them anything may have
    changed.
    """
    ends = time.monotonic() + turn_seconds
    for item in items:
        yield item
        if time.monotonic() >= ends:
            await asyncio.sleep(0)
            ends = time.monotonic() + turn_seconds

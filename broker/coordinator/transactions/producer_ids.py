"""ProducerIds: every producer gets an id that no other producer has ever had.

Ids are taken from the catalog in blocks, so that only one in a thousand waits for the disk. The
rest of a block is lost when the broker stops, which costs nothing: there are 2^63.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from seglog.broker.requests.services import Services

logger = logging.getLogger(__name__)

BLOCK_SIZE: Final = 1000
_MADE_UP: Final = 2**62
"""No counter ever gets to such an id: a producer that uses one has made it up."""


class ProducerIds:
    """Hands out producer ids.

    Args:
        services: of the broker.
        highest_stored: the highest id that a transactional id has, -1 without any; it may wait
            until that is known.
    """

    def __init__(
        self, services: Services, highest_stored: Callable[[], Awaitable[int]] | None = None
    ) -> None:
        self._services = services
        self._highest_stored = highest_stored
        self._next = 0
        self._end = 0
        self._reservation: asyncio.Task[None] | None = None
        self._floor: int | None = None

    @property
    def is_stocked(self) -> bool:
        """Whether ``take`` has an id to give."""
        return self._next < self._end

    def take(self) -> int | None:
        """An id, None if a block has to be reserved first."""
        if self._next >= self._end:
            return None
        taken = self._next
        self._next += 1
        return taken

    async def take_or_reserve(self) -> int:
        """An id, even if that takes a while.

        Raises:
            StorageError: a block could not be reserved.
        """
        await self.restock()
        taken = self.take()
        assert taken is not None
        return taken

    async def restock(self) -> None:
        """See to it that the next ``take`` has an id to give; raises as ``take_or_reserve``."""
        while not self.is_stocked:
            if self._reservation is None:
                self._reservation = asyncio.get_running_loop().create_task(self._reserve())
                self._reservation.add_done_callback(self._reserved)
            # Requests that come meanwhile wait for the same block.
            await asyncio.shield(self._reservation)

    async def _reserve(self) -> None:
        services = self._services
        if self._floor is None:
            stored = -1 if self._highest_stored is None else await self._highest_stored()
            self._floor = max(self._lowest_safe_id(), stored + 1)
        reserve = partial(services.catalog.reserve_producer_ids, BLOCK_SIZE, self._floor)
        first = await services.workers.catalog.run(reserve)
        self._next, self._end = first, first + BLOCK_SIZE

    def _reserved(self, task: "asyncio.Task[None]") -> None:
        self._reservation = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("event=producer-ids-not-reserved error=%s", error)

    def _lowest_safe_id(self) -> int:
        """An id that no producer can have, also after a loss of the catalog.

        No producer that a log remembers may have it; ids that were made up do not count. Where the
        catalog was damaged, and its copy may not know the last blocks, the clock is a number that
        no counter has reached: ids are handed out more slowly than milliseconds pass.
        """
        services = self._services
        known = [
            entry.producer_id
            for partition in services.partitions.all()
            for entry in partition.log.producer_state
            # A client may write with any id. After the highest possible one there would be none
            # left to give out.
            if entry.producer_id < _MADE_UP
        ]
        floor = max(known, default=-1) + 1
        if services.catalog.is_fallback:
            floor = max(floor, services.clock.time_ms())
            logger.warning("event=producer-ids-skipped floor=%d reason=catalog-was-damaged", floor)
        return floor

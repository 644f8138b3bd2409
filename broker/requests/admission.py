"""Admission of records to a transaction (TXN-11).

Produce asks for it before it appends; the coordinator of transactions gives it. Both depend on this
module and not on each other.
"""

import asyncio
from collections.abc import Iterable
from typing import Protocol


class TransactionAdmission(Protocol):
    """What lets records of transactions in."""

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        places: Iterable[tuple[str, int]],
        *,
        may_add: bool,
    ) -> "asyncio.Future[None] | None":
        """Let records of a transaction into partitions (TXN-11).

        Args:
            transactional_id: of the request.
            producer_id: of the records.
            producer_epoch: of the records.
            places: where they shall go.
            may_add: whether the client leaves it to its records to add the partitions; then all of
                them are added at once.

        Returns:
            What has to be waited for before the records are written, None mostly: then they may be
            written now, before anything else happens.

        Raises:
            RequestError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
                TRANSACTION_ABORTABLE if one was not added, or the coordinator is not available.
        """
        ...


def all_of(waits: "list[asyncio.Future[None]]") -> "asyncio.Future[None] | None":
    """One future for all of these, none of which is cancelled with it."""
    if len(waits) <= 1:
        return waits[0] if waits else None
    return asyncio.ensure_future(_wait_for_all(waits))


async def _wait_for_all(waits: "list[asyncio.Future[None]]") -> None:
    """Wait for several futures without cancelling them; raises the first error."""
    await asyncio.wait(waits)
    for each in waits:
        each.result()

"""OffsetExpiry: offsets go when they are too old, or when their topic goes.

An offset never expires while its group has members. It counts from when the group lost the last
one, and from its commit in a group that has never had any. Where a transaction is about to replace
an offset, and in a group that transactions have offsets for, nothing goes before these have ended.
"""

import asyncio
import logging
from typing import Final

from seglog.broker.coordinator.groups.coordinator import GroupCoordinator
from seglog.broker.coordinator.groups.records import NO_EXPIRY_MS, CommittedOffset
from seglog.broker.coordinator.groups.state import GroupState
from seglog.broker.coordinator.groups.table import Group, GroupTable
from seglog.broker.errors import RequestError
from seglog.broker.requests.services import Services

logger = logging.getLogger(__name__)

_MS_PER_MINUTE: Final = 60_000
_SLICE: Final = 100
"""After so many groups others get their turn: some 5 ms."""


class OffsetExpiry:
    """Removes offsets that no client will ask for any more.

    Args:
        services: of the broker.
        table: the groups.
        coordinator: removes groups of which nothing is left.
    """

    def __init__(
        self,
        services: Services,
        table: GroupTable,
        coordinator: GroupCoordinator,
    ) -> None:
        self._services = services
        self._table = table
        self._coordinator = coordinator

    async def topic_deleted(self, topic: str) -> None:
        """The offsets of a deleted topic go with it; its name must not be free before this ends."""
        for number, group in enumerate(self._table, 1):
            if group.membership.state is not GroupState.DEAD:
                places = [place for place in group.places if place[0] == topic]
                self._table.counters.deleted_offsets += len(places)
                self._table.delete_offsets(group, places)
            if number % _SLICE == 0:
                # Thousands of groups may have read it.
                await asyncio.sleep(0)

    async def expire(self) -> None:
        """The task: drop offsets that are too old, and empty groups that have none left."""
        now_ms = self._services.clock.time_ms()
        retention_ms = self._retention_ms()
        for group in self._table:
            if group.membership.state is not GroupState.EMPTY:
                continue
            expired = [
                place
                for place, committed in group.offsets.items()
                if place not in group.pending
                and _is_expired(group, committed, now_ms, retention_ms)
            ]
            self._table.counters.expired_offsets += len(expired)
            if expired:
                logger.info(
                    "event=offsets-expired group=%r offsets=%d", group.group_id, len(expired)
                )
            if (
                len(expired) < len(group.offsets)
                or group.pending
                or group.membership.has_pending_members
            ):
                self._table.delete_offsets(group, expired)
            else:
                self._drop(group)
            # Many groups may expire at once; no client has to wait for all of them.
            await asyncio.sleep(0)

    def _drop(self, group: Group) -> None:
        try:
            self._coordinator.drop(group)
        except RequestError as error:
            logger.warning(
                "event=group-not-removed group=%r error=%s", group.group_id, error.message
            )

    def _retention_ms(self) -> int:
        config = self._services.config
        if config.offsets_retention_ms is not None:
            return config.offsets_retention_ms
        return config.offsets_retention_minutes * _MS_PER_MINUTE


def _is_expired(group: Group, committed: CommittedOffset, now_ms: int, retention_ms: int) -> bool:
    """Whether an offset of a group without members is too old.

    It counts from when the group lost its last member, and from the commit for a group that has
    never had any.
    """
    if committed.expires_ms != NO_EXPIRY_MS:
        return now_ms >= committed.expires_ms
    begin_ms = committed.committed_ms
    if group.membership.protocol_type is not None:
        begin_ms = max(begin_ms, group.membership.changed_ms)
    return now_ms - begin_ms >= retention_ms

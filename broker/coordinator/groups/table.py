"""GroupTable: every group of this broker, and whether it may be asked for yet."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from seglog.broker.coordinator.groups.group import ClassicGroup
from seglog.broker.coordinator.groups.pending_offsets import PendingOffsets, put_into_force
from seglog.broker.coordinator.groups.records import (
    CommittedOffset,
    offset_tombstone,
    restored_group,
)
from seglog.broker.coordinator.groups.replay import GroupReplay
from seglog.broker.coordinator.groups.state import ClockReading, GroupLimits, GroupState
from seglog.broker.coordinator.groups.store import OffsetStore
from seglog.broker.coordinator.internal_topics.loading import TopicLoader
from seglog.broker.coordinator.internal_topics.records import Place
from seglog.broker.errors import RequestError
from seglog.broker.requests.services import Services
from seglog.broker.runtime.scheduler import ScheduledTask
from seglog.broker.storage.errors import StorageError
from seglog.protocol.api import ZERO_TOPIC_ID
from seglog.protocol.errors import ErrorCode, SeglogError

logger = logging.getLogger(__name__)

GROUP_ID_BYTES_MAX: Final = 32_767
"""What the length of a string in a record key can say."""


@dataclass(slots=True, eq=False)
class Group:
    """One group: its members and offsets.

    ``timer`` runs at ``timer_ms`` (monotonic clock) or before, when something may be due.
    ``pending`` are offsets of transactions that are still open.
    """

    membership: ClassicGroup
    offsets: dict[Place, CommittedOffset] = field(default_factory=dict)
    pending: PendingOffsets = field(default_factory=PendingOffsets)
    timer: ScheduledTask | None = None
    timer_ms: int = 0

    @property
    def group_id(self) -> str:
        """Its name."""
        return self.membership.group_id

    @property
    def places(self) -> set[Place]:
        """Every place that it has an offset for, be it in an open transaction only."""
        return {*self.offsets, *self.pending.places()}

    @property
    def is_unused(self) -> bool:
        """Whether nothing is known of it that would be worth keeping."""
        return (
            self.membership.state is GroupState.EMPTY
            and not self.offsets
            and not self.pending
            and not self.membership.has_pending_members
        )


@dataclass(slots=True)
class GroupCounters:
    """What the coordinator has counted; a collector reads it.

    Attributes:
        commits: offsets that were stored, those in transactions included.
        expired_offsets: offsets that went because of their age.
        deleted_offsets: offsets that a client deleted, or whose topic was deleted.
        rebalances: generations that were completed.
        load_faults: records of the internal topic that could not be read at the start.
    """

    commits: int = 0
    expired_offsets: int = 0
    deleted_offsets: int = 0
    rebalances: int = 0
    load_faults: int = 0


class GroupTable:
    """The groups by id.

    Args:
        services: of the broker.
        store: where groups are stored.

    Attributes:
        counters: what happened to groups and offsets.
        restored_listener: told of every group that was read back.
    """

    def __init__(self, services: Services, store: OffsetStore) -> None:
        self.counters = GroupCounters()
        self.restored_listener: Callable[[Group], None] | None = None
        self._services = services
        self._store = store
        self._groups: dict[str, Group] = {}
        # By partition and producer: groups that an open transaction has offsets of. One that was
        # removed meanwhile may still be named.
        self._transactions: dict[tuple[int, int], set[str]] = {}
        self._loader = TopicLoader(services, store, GroupReplay, self._take_over, _warn_not_loaded)
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._groups.values()))

    # ---- access

    @property
    def is_stopped(self) -> bool:
        """Whether the broker is stopping."""
        return self._is_stopped

    @property
    def is_loading(self) -> bool:
        """Whether some groups may not be known yet."""
        return self._loader.is_loading

    def now(self) -> ClockReading:
        """The time on both clocks."""
        clock = self._services.clock
        return ClockReading(clock.monotonic_ms(), clock.time_ms())

    def limits(self) -> GroupLimits:
        """What the configuration says now."""
        config = self._services.config
        return GroupLimits(config.group_initial_rebalance_delay_ms, config.group_max_size)

    def check(self, group_id: str, *, may_be_nameless: bool = False) -> None:
        """Check whether a group can be worked on.

        Args:
            may_be_nameless: offsets may be kept without a group id, as ever.

        Raises:
            RequestError: its name is illegal, or it is not available now.
        """
        if self._is_stopped:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is stopping")
        if not group_id and not may_be_nameless:
            raise RequestError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        if len(group_id) > GROUP_ID_BYTES_MAX // 4 and len(group_id.encode()) > GROUP_ID_BYTES_MAX:
            raise RequestError(ErrorCode.INVALID_GROUP_ID, "the group id is too long")
        self._loader.check(group_id)

    def find(self, group_id: str) -> Group | None:
        """A group, None if there is none."""
        return self._groups.get(group_id)

    def get(self, group_id: str, missing: ErrorCode) -> Group:
        """A group that has to be there.

        Raises:
            RequestError: with the code ``missing`` if there is none.
        """
        group = self._groups.get(group_id)
        if group is None:
            raise RequestError(missing, f"there is no group {group_id!r}")
        return group

    def new(self, group_id: str) -> Group:
        """A group that is not in the table yet; ``add`` it once it is worth it."""
        return Group(ClassicGroup(group_id, self.limits(), self.now()))

    def add(self, group: Group) -> None:
        """Take a group in; no matter if it is there."""
        known = self._groups.setdefault(group.group_id, group)
        assert known is group, group.group_id

    def remove(self, group: Group) -> None:
        """Forget a group."""
        if group.timer is not None:
            group.timer.cancel()
            group.timer = None
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]

    # ---- transactions

    def hold_back(
        self, group: Group, producer_id: int, offsets: Mapping[Place, CommittedOffset]
    ) -> None:
        """Keep offsets of a group that count once the producer's transaction is committed."""
        group.pending.add(producer_id, offsets)
        key = (self._store.partition_of(group.group_id), producer_id)
        self._transactions.setdefault(key, set()).add(group.group_id)

    def decide(self, partition_number: int, producer_id: int, *, is_commit: bool) -> None:
        """A marker in a partition has ended a transaction: its offsets count, or are forgotten.

        While the partition is being read nothing is to be done: the marker is read as well.
        """
        for group_id in sorted(self._transactions.pop((partition_number, producer_id), ())):
            group = self._groups.get(group_id)
            if group is None:
                continue
            decided = group.pending.take(producer_id)
            if is_commit:
                put_into_force(
                    group.offsets,
                    {
                        place: committed
                        for place, committed in decided.items()
                        if self._is_of_topic(place[0], committed)
                    },
                )
            if group.is_unused and group.membership.generation == 0:
                self.remove(group)

    # ---- loading

    def start(self) -> None:
        """Begin to read the groups that are stored."""
        self._loader.start(self._load_all)

    async def loaded(self) -> None:
        """Wait until every group is known that can be."""
        await self._loader.loaded()

    async def stop(self) -> None:
        """Be of no further use."""
        self._is_stopped = True
        await self._loader.stop()

    async def _load_all(self) -> None:
        if not self.is_loading:
            return
        started_ms = self._services.clock.monotonic_ms()
        await self._loader.load(self._services.config.offsets_load_buffer_size)
        logger.info(
            "event=groups-loaded groups=%d offsets=%d faults=%d milliseconds=%d",
            len(self._groups),
            sum(len(group.offsets) for group in self._groups.values()),
            self.counters.load_faults,
            self._services.clock.monotonic_ms() - started_ms,
        )

    def _take_over(self, replay: GroupReplay) -> None:
        self.counters.load_faults += replay.faults
        now = self.now()
        limits = self.limits()
        pending: dict[str, dict[int, dict[Place, CommittedOffset]]] = {}
        for producer_id, groups in replay.pending.items():
            for group_id, offsets in groups.items():
                if offsets:
                    pending.setdefault(group_id, {})[producer_id] = offsets
        for group_id in {**replay.offsets, **replay.groups, **pending}:
            value = replay.groups.get(group_id)
            membership = (
                ClassicGroup(group_id, limits, now)
                if value is None
                else restored_group(group_id, value, limits, now)
            )
            group = Group(membership, replay.offsets.get(group_id, {}))
            for producer_id, undecided in pending.get(group_id, {}).items():
                self.hold_back(group, producer_id, undecided)
            self._drop_orphans(group)
            if value is not None or group.offsets or group.pending:
                self._groups[group_id] = group
                if self.restored_listener is not None:
                    self.restored_listener(group)

    def _drop_orphans(self, group: Group) -> None:
        """Drop offsets of topics that were deleted when there was no time to say so.

        Undecided offsets stay until they are decided: a tombstone would count for offsets committed
        to the topic's successor as well.
        """
        orphans = [
            place
            for place, committed in group.offsets.items()
            if not self._is_of_topic(place[0], committed)
        ]
        self.delete_offsets(group, orphans)

    def _is_of_topic(self, name: str, committed: CommittedOffset) -> bool:
        topic = self._services.catalog.get(name)
        return topic is not None and committed.topic_id in (ZERO_TOPIC_ID, topic.topic_id)

    def delete_offsets(self, group: Group, places: list[Place]) -> None:
        """Take offsets out of a group, in the log too; what cannot be logged is only forgotten.

        For offsets that are not needed any more, and that would be found useless again.
        """
        try:
            self.forget_offsets(group, places)
        except SeglogError as error:
            logger.warning(
                "event=tombstones-not-written group=%r offsets=%d error=%s",
                group.group_id,
                len(places),
                error,
            )
            _drop_places(group, places)

    def forget_offsets(self, group: Group, places: list[Place]) -> "asyncio.Future[None] | None":
        """Take offsets out of a group, in the log first.

        Returns:
            What an acknowledgement has to wait for, None if it may be given at once.

        Raises:
            RequestError, RecordError, StorageError: that is not possible now; they stay.
        """
        if not places:
            return None
        records = [offset_tombstone(group.group_id, place) for place in places]
        acknowledgement = self._store.append_all(group.group_id, records)
        _drop_places(group, places)
        return acknowledgement


def _warn_not_loaded(number: int, error: StorageError) -> None:
    logger.warning("event=groups-not-loaded partition=%d error=%s", number, error)


def _drop_places(group: Group, places: list[Place]) -> None:
    for place in places:
        group.offsets.pop(place, None)
    group.pending.forget(places)

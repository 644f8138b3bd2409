"""The fetch sessions of a broker: the state of each, and which ones stay when there are many.

A session is a list of partitions with what the client was last told of each. Statement ids (SESS)
are those of the behaviour reference.

Everything runs on the event-loop thread; the time is passed in, from a clock that never goes back.
"""

import os
from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Final, TypeAlias

from seglog.broker.partition.counters import BrokerCounters
from seglog.protocol.api import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
)
from seglog.protocol.errors import ErrorCode
from seglog.protocol.types import INT32_MAX

IDLE_MS_MAX: Final = 120_000
"""After that a session makes room for others; a younger one is spared by consumers."""
PARTITIONS_REMEMBERED_MAX: Final = 1_000_000
"""In all sessions together: some 200 MB. Kafka has no such bound."""

Key: TypeAlias = tuple[bytes | str, int]
"""Name or id of a topic, and a partition of it."""
_Rank: TypeAlias = tuple[bool, int, int]


class CachedPartition:
    """One partition of a session: the wanted range, and the last values for its client."""

    __slots__ = ("entry", "high_watermark", "log_start_offset")

    def __init__(
        self, entry: FetchPartition, high_watermark: int = -1, log_start_offset: int = -1
    ) -> None:
        self.entry = entry
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset

    def take(self, result: FetchPartitionResult) -> bool:
        """Remember a result; whether there is something in it that the client must hear (SESS-6).

        After an error the high watermark counts as unknown, so that the client hears of the end
        of the error, too.
        """
        is_news = (
            result.error != ErrorCode.NONE
            or result.records is not None
            or result.high_watermark != self.high_watermark
            or result.log_start_offset != self.log_start_offset
            or result.diverging_epoch is not None
        )
        failed = result.error != ErrorCode.NONE
        self.high_watermark = -1 if failed else result.high_watermark
        self.log_start_offset = result.log_start_offset
        return is_news


class FetchSession:
    """The partitions that one client fetches, in the order in which they are served.

    Attributes:
        id: greater than 0.
        is_follower: whether a replica fetches, and not a consumer.
        uses_topic_ids: whether topics are named by their ids, from first to last (SESS-5).
        epoch: of the next request.
    """

    __slots__ = (
        "created_ms", "epoch", "id", "is_follower", "last_used_ms", "partitions", "rank",
        "uses_topic_ids",
    )  # fmt: skip

    def __init__(
        self,
        session_id: int,
        partitions: dict[Key, CachedPartition],
        now_ms: int,
        *,
        is_follower: bool,
        uses_topic_ids: bool,
    ) -> None:
        self.id = session_id
        self.partitions = partitions
        self.is_follower = is_follower
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = self.last_used_ms = now_ms
        self.epoch = 1
        self.rank: _Rank = (is_follower, len(partitions), session_id)

    def change(self, request: FetchRequest) -> None:
        """Take over what a request names; new partitions are served last."""
        partitions = self.partitions
        for entry in request.partitions:
            key = key_of(entry, uses_topic_ids=self.uses_topic_ids)
            cached = partitions.get(key)
            if cached is None:
                partitions[key] = CachedPartition(entry)
            else:
                cached.entry = entry
        for topic_id, topic, numbers in request.forgotten:
            for number in numbers:
                partitions.pop((topic_id if self.uses_topic_ids else topic, number), None)

    def advance(self) -> int:
        """Accept a request: the epoch of the one that follows it (SESS-4)."""
        self.epoch = 1 if self.epoch == INT32_MAX else self.epoch + 1
        return self.epoch

    def keep_news(self, response: FetchResponse) -> None:
        """Leave out values that the client knows; partitions with records go to the end (SESS-7).

        Args:
            response: a result for each partition, in the order of the session.
        """
        news: list[FetchPartitionResult] = []
        partitions = self.partitions
        for (key, cached), result in zip(
            list(partitions.items()), response.partitions, strict=True
        ):
            if cached.take(result):
                news.append(result)
                if result.records is not None:
                    partitions[key] = partitions.pop(key)
        response.partitions = news


class FetchSessionCache:
    """The sessions of a broker, of which there are only so many (SESS-9).

    Args:
        slots: how many there may be.
        counters: of the broker.
        choose_id: any positive number; one that is in use is not taken.
    """

    def __init__(
        self, slots: int, counters: BrokerCounters, choose_id: Callable[[], int] | None = None
    ) -> None:
        self._slots = slots
        self._counters = counters
        self._choose_id = choose_id or _random_id
        # In the order of their last use, and in the order in which they make room.
        self._sessions: dict[int, FetchSession] = {}
        self._ranks: list[_Rank] = []

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The partitions of all sessions."""
        return self._counters.fetch_session_partitions

    @property
    def is_overfull(self) -> bool:
        """Whether sessions have grown beyond what may be remembered."""
        return self.partition_count > PARTITIONS_REMEMBERED_MAX

    def find(self, session_id: int) -> FetchSession | None:
        """The session with this id."""
        return self._sessions.get(session_id)

    def create(
        self,
        partitions: dict[Key, CachedPartition],
        now_ms: int,
        *,
        is_follower: bool,
        uses_topic_ids: bool,
    ) -> FetchSession | None:
        """A new session, or None if no other session makes room for it."""
        if self.partition_count + len(partitions) > PARTITIONS_REMEMBERED_MAX:
            return None
        newcomer = (is_follower, len(partitions), 0)
        if len(self._sessions) >= self._slots and not self._make_room(newcomer, now_ms):
            return None
        session_id = self._choose_id()
        while session_id in self._sessions:
            session_id = self._choose_id()
        session = FetchSession(
            session_id, partitions, now_ms, is_follower=is_follower, uses_topic_ids=uses_topic_ids
        )
        self._sessions[session_id] = session
        self._counters.fetch_sessions += 1
        self._add_rank(session)
        return session

    def touch(self, session: FetchSession, now_ms: int) -> None:
        """Note that a session was used, and that its partitions may have changed."""
        session.last_used_ms = now_ms
        self._sessions[session.id] = self._sessions.pop(session.id)
        size = len(session.partitions)
        if size != session.rank[1]:
            self._drop_rank(session)
            session.rank = (session.is_follower, size, session.id)
            self._add_rank(session)

    def remove(self, session_id: int) -> None:
        """Forget a session; there may be none."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._counters.fetch_sessions -= 1
            self._drop_rank(session)

    def _add_rank(self, session: FetchSession) -> None:
        insort(self._ranks, session.rank)
        self._counters.fetch_session_partitions += session.rank[1]

    def _drop_rank(self, session: FetchSession) -> None:
        del self._ranks[bisect_left(self._ranks, session.rank)]
        self._counters.fetch_session_partitions -= session.rank[1]

    def _make_room(self, newcomer: _Rank, now_ms: int) -> bool:
        """Displace one session, if there is one that has less right to stay than the newcomer."""
        leaves = self._idle_session(now_ms) or self._lesser_session(newcomer, now_ms)
        if leaves is None:
            return False
        self.remove(leaves.id)
        self._counters.fetch_session_evictions += 1
        return True

    def _idle_session(self, now_ms: int) -> FetchSession | None:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now_ms - oldest.last_used_ms > IDLE_MS_MAX:
            return oldest
        return None

    def _lesser_session(self, newcomer: _Rank, now_ms: int) -> FetchSession | None:
        comes_from_follower = newcomer[0]
        for rank in self._ranks:
            if rank >= newcomer:
                break
            session = self._sessions[rank[2]]
            is_grown = now_ms - session.created_ms > IDLE_MS_MAX
            if is_grown or (comes_from_follower and not session.is_follower):
                return session
        return None


def key_of(entry: FetchPartition, *, uses_topic_ids: bool) -> Key:
    """What a partition is known by in a session."""
    return entry.topic_id if uses_topic_ids else entry.topic, entry.partition


def _random_id() -> int:
    """A number that cannot be guessed; a client that knows the id can use the session."""
    while True:
        session_id = int.from_bytes(os.urandom(4), "big") & INT32_MAX
        if session_id:
            return session_id

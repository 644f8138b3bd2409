"""Which fetch sessions there is room for (SESS-9)."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from seglog.broker.api import fetch_session_cache
from seglog.broker.api.fetch_session_cache import (
    IDLE_MS_MAX,
    CachedPartition,
    FetchSession,
    FetchSessionCache,
)
from seglog.broker.partition.counters import BrokerCounters
from seglog.protocol.api import FetchPartition


class Cache:
    """A cache and its clock."""

    def __init__(self, slots: int, choose_id: Callable[[], int] | None = None) -> None:
        self.counters = BrokerCounters()
        self.sessions = FetchSessionCache(slots, self.counters, choose_id or count(1).__next__)
        self.now_ms = 1_000_000

    def add(self, size: int, *, follower: bool = False) -> FetchSession | None:
        partitions: dict[tuple[bytes | str, int], CachedPartition] = {
            ("t", number): CachedPartition(FetchPartition("t", number, 0, 1))
            for number in range(size)
        }
        return self.sessions.create(
            partitions, self.now_ms, is_follower=follower, uses_topic_ids=False
        )

    def add_kept(self, size: int, *, follower: bool = False) -> FetchSession:
        session = self.add(size, follower=follower)
        assert session is not None
        return session

    def touch(self, session: FetchSession) -> None:
        self.sessions.touch(session, self.now_ms)

    def has(self, session: FetchSession) -> bool:
        return self.sessions.find(session.id) is session


def test_no_slots_no_sessions() -> None:
    assert Cache(0).add(5) is None


def test_session_that_is_idle_for_long_makes_room_for_anyone() -> None:
    cache = Cache(2)
    first, second = cache.add_kept(50), cache.add_kept(60)
    cache.now_ms += IDLE_MS_MAX
    assert cache.add(99) is None, "two minutes are not more than two minutes"
    cache.touch(first)
    cache.now_ms += 1
    assert cache.add(1) is not None
    assert cache.has(first)
    assert not cache.has(second)
    assert cache.counters.fetch_session_evictions == 1


def test_consumer_does_not_displace_a_young_session() -> None:
    cache = Cache(1)
    session = cache.add_kept(1)
    assert cache.add(1000) is None
    assert cache.has(session)
    assert cache.counters.fetch_session_evictions == 0


def test_larger_consumer_displaces_the_smallest_grown_session() -> None:
    cache = Cache(3)
    small, smaller, large = cache.add_kept(10), cache.add_kept(9), cache.add_kept(50)
    cache.now_ms += IDLE_MS_MAX
    for session in (small, smaller, large):
        cache.touch(session)
    cache.now_ms += 1
    assert cache.add(9) is None, "not smaller than the newcomer"
    assert cache.add(10) is not None
    assert not cache.has(smaller)
    assert cache.has(small)
    assert cache.has(large)


def test_young_small_session_does_not_shield_a_grown_one() -> None:
    cache = Cache(2)
    grown = cache.add_kept(10)
    cache.now_ms += IDLE_MS_MAX
    young = cache.add_kept(1)
    cache.touch(grown)
    cache.now_ms += 1
    assert cache.add(11) is not None
    assert not cache.has(grown)
    assert cache.has(young)


def test_follower_displaces_any_consumer_but_no_young_follower() -> None:
    cache = Cache(2)
    consumer = cache.add_kept(1000)
    follower = cache.add_kept(5, follower=True)
    newcomer = cache.add_kept(1, follower=True)
    assert not cache.has(consumer)
    assert cache.has(follower)
    assert cache.add(100, follower=True) is None
    assert cache.add(100) is None, "a consumer never displaces a follower in use"
    assert cache.has(newcomer)


def test_larger_follower_displaces_a_grown_smaller_one() -> None:
    cache = Cache(1)
    follower = cache.add_kept(5, follower=True)
    cache.now_ms += IDLE_MS_MAX
    cache.touch(follower)
    cache.now_ms += 1
    assert cache.add(5000) is None
    assert cache.add(5, follower=True) is None
    assert cache.add(6, follower=True) is not None


def test_session_ranks_by_the_size_it_has_now() -> None:
    cache = Cache(2)
    first, second = cache.add_kept(10), cache.add_kept(20)
    cache.now_ms += IDLE_MS_MAX
    first.partitions.update(
        {("u", number): CachedPartition(FetchPartition("u", number, 0, 1)) for number in range(90)}
    )
    cache.touch(first)
    cache.touch(second)
    assert cache.counters.fetch_session_partitions == 120
    cache.now_ms += 1
    assert cache.add(50) is not None
    assert cache.has(first)
    assert cache.counters.fetch_session_partitions == 150
    assert cache.counters.fetch_sessions == len(cache.sessions) == 2


def test_id_in_use_is_not_given_out_again() -> None:
    ids: Iterator[int] = iter([7, 7, 7, 8])
    cache = Cache(9, ids.__next__)
    assert (cache.add_kept(1).id, cache.add_kept(1).id) == (7, 8)


def test_ids_are_positive_and_hard_to_guess() -> None:
    cache = Cache(300)
    cache.sessions = FetchSessionCache(300, cache.counters)
    ids = {cache.add_kept(1).id for _ in range(300)}
    assert len(ids) == 300
    assert all(0 < session_id < 2**31 for session_id in ids)
    assert max(ids) > 2**24


def test_memory_of_all_sessions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session_cache, "PARTITIONS_REMEMBERED_MAX", 100)
    cache = Cache(1000)
    session = cache.add_kept(60)
    assert cache.add(41) is None
    assert cache.add(40) is not None
    cache.sessions.remove(session.id)
    cache.sessions.remove(session.id)
    assert cache.add(60) is not None
    assert cache.counters.fetch_session_partitions == 100

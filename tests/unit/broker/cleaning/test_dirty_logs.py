"""Choosing among many logs: the dirtiest first, with a bounded turn of the loop and few looks."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from seglog.broker.cleaning import log_cleaner
from seglog.broker.cleaning.dirty_logs import DirtyLogs
from seglog.broker.storage.cleaner.candidates import CleanableLog
from seglog.broker.storage.directories.log_manager import LogManager
from seglog.broker.storage.errors import DeferredReadError
from seglog.broker.storage.log.log import Log
from seglog.config.log_config import LogConfig
from seglog.protocol.types import TopicPartition

CONFIG = LogConfig(min_cleanable_dirty_ratio=0.5)


class ManyLogs:
    """Logs without files; each look takes a tenth of a millisecond."""

    def __init__(self, dirty_bytes: list[int]) -> None:
        self.logs: dict[TopicPartition, Any] = {}
        self.dirty_bytes: dict[TopicPartition, int] = {}
        for number, count in enumerate(dirty_bytes):
            name = TopicPartition("t", number)
            self.logs[name] = SimpleNamespace(topic_partition=name, config=CONFIG)
            self.dirty_bytes[name] = count
        self.now = 0.0
        self.looks = 0
        self.coming: list[Callable[[], None]] = []
        self.dirty_logs = DirtyLogs(
            cast("LogManager", self), self._look, self._call_later, monotonic=lambda: self.now
        )

    def _call_later(self, _seconds: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        self.coming.append(action)
        return cast("asyncio.TimerHandle", SimpleNamespace(cancel=self.coming.clear))

    def all_logs(self) -> list[Any]:
        return list(self.logs.values())

    def get(self, topic_partition: TopicPartition) -> Any:
        return self.logs.get(topic_partition)

    def _look(self, log: Log) -> CleanableLog:
        self.now += 0.0001
        self.looks += 1
        dirty = self.dirty_bytes[log.topic_partition]
        return CleanableLog(
            log.topic_partition, 0, 0, 100 - dirty, dirty, 0, checkpoint_is_invalid=False
        )

    def take(self) -> int | None:
        found = self.dirty_logs.take_filthiest()
        return None if found is None else found[0].topic_partition.partition


def round_of(many: ManyLogs) -> list[int]:
    """Run a round; how many logs each turn of the loop has looked at."""
    ended, turns, looks = list[bool](), list[int](), 0
    many.dirty_logs.begin_round(lambda: ended.append(True))
    while True:
        turns.append(many.looks - looks)
        looks = many.looks
        if not many.coming:
            assert ended == [True]
            return turns
        many.coming.pop()()


def test_a_round_over_many_logs_leaves_the_loop_to_others() -> None:
    """S10: with 10,000 compacted logs the turn took a tenth of a second and more."""
    many = ManyLogs([60] * 500)
    turns = round_of(many)
    assert sum(turns) == 500
    assert max(turns) <= 11  # a millisecond's worth


def test_a_small_broker_is_looked_at_in_one_turn() -> None:
    many = ManyLogs([60] * 8)
    assert round_of(many) == [8]


def test_the_dirtiest_log_comes_first_and_each_comes_once() -> None:
    """CLN-5, CLN-6: what is gone, or clean by now, does not come."""
    many = ManyLogs([60, 90, 40, 70, 80])
    many.dirty_logs.begin_round(lambda: None)
    assert many.take() == 1
    del many.logs[TopicPartition("t", 4)]
    many.dirty_bytes[TopicPartition("t", 3)] = 10
    assert (many.take(), many.take()) == (0, None)
    many.dirty_bytes[TopicPartition("t", 2)] = 90
    many.dirty_logs.look_again(many.logs[TopicPartition("t", 2)])
    assert (many.take(), many.take()) == (2, None)


def test_taking_all_of_many_logs_looks_at_each_twice() -> None:
    """S10: N logs were N times N looks."""
    many = ManyLogs([60] * 300)
    round_of(many)
    while many.take() is not None:
        pass
    assert many.looks == 600


def test_a_defect_in_a_look_is_not_the_end_of_all_rounds() -> None:
    many = ManyLogs([60] * 3)
    dirty_bytes, many.dirty_bytes = many.dirty_bytes, {}
    with pytest.raises(KeyError):
        many.dirty_logs.begin_round(lambda: None)
    many.dirty_bytes = dirty_bytes
    many.dirty_logs.begin_round(lambda: None)
    assert many.take() is not None


async def test_each_pass_over_a_small_log_looks_at_all_others(
    start: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S10, on a real cleaner: some looks a log, however many there are."""
    cleaning = await start()
    names = [f"t{number}" for number in range(12)]
    for name in names:
        await cleaning.topic(name)
        for value in "12":
            await cleaning.put("k", value, name)
        cleaning.roll(name)
    looks, look_at = list[TopicPartition](), log_cleaner.look_at

    def note(log: Log, *arguments: Any) -> CleanableLog:
        looks.append(log.topic_partition)
        return look_at(log, *arguments)

    monkeypatch.setattr(log_cleaner, "look_at", note)
    cleaning.cleaner.look_for_work()
    while left := [name for name in names if len(cleaning.content(name)) > 1]:
        await asyncio.wait_for(cleaning.cleaner.clean_now(TopicPartition(left[0], 0)), 10)
    assert len(looks) <= 5 * len(names)


async def test_a_damaged_index_makes_a_log_uncleanable(start: Callable) -> None:
    """CLN-8: what looking at it waits for is done by another thread, and it is cleaned."""
    cleaning = await start()
    log = await cleaning.topic(min_compaction_lag_ms="1")
    for value in "123":
        await cleaning.put("k", value)
    cleaning.roll()
    cleaning.clock.advance(1000)
    works = list[str]()

    def look(looked_at: Log, *arguments: Any) -> CleanableLog:
        if not works:
            raise DeferredReadError("00.timeindex", "it does not fit", work)
        return look_at(looked_at, *arguments)

    def work() -> Callable[[], None]:
        return lambda: works.append("taken over")

    look_at = log_cleaner.look_at
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(log_cleaner, "look_at", look)
        assert cleaning.cleaner.look_at(log).cleanable_bytes == 0
        outcome = await asyncio.wait_for(cleaning.clean(), 10)
    assert (works, outcome.error) == (["taken over"], None)
    assert not cleaning.cleaner.uncleanable
    assert [value for _, _, value in cleaning.content()] == ["3"]

"""Compaction of real logs beside appends: choosing, swapping, checkpointing."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.files.layout import CLEANER_OFFSET_CHECKPOINT
from seglog.broker.storage.files.log_file import LogFile
from seglog.broker.storage.log.log import FetchIsolation
from seglog.config import BrokerConfig
from seglog.protocol.types import TopicPartition
from support.broker_parts import NOW_MS, batch_of
from support.cleaning_broker import Cleaning
from support.fake_clock import FakeClock


async def test_compaction_loses_the_last_value_or_an_offset(start: Callable) -> None:
    cleaning = await start()
    await cleaning.topic()
    for number in range(10):
        await cleaning.put(f"k{number % 3}", str(number))
    cleaning.roll()
    await cleaning.put("k0", "active")
    outcome = await cleaning.clean()
    assert outcome.error is None
    assert outcome.size_after < outcome.size_before
    assert cleaning.content() == [
        (7, "k1", "7"),
        (8, "k2", "8"),
        (9, "k0", "9"),
        (10, "k0", "active"),
    ]


async def test_the_filthiest_log_waits_for_a_clean_one(start: Callable) -> None:
    """CLN-4..6: nobody asked; the look for work finds it."""
    cleaning = await start()
    for topic in ("a", "b"):
        await cleaning.topic(topic)
        for number in range(6):
            await cleaning.put("k", str(number), topic)
        cleaning.roll(topic)
    await cleaning.topic("deleting", cleanup_policy="delete")
    cleaning.cleaner.look_for_work()
    for topic in ("a", "b"):
        await cleaning.clean(topic)
        assert [value for _, _, value in cleaning.content(topic)] == ["5"]
        cleanable = cleaning.cleaner.look_at(cleaning.parts.log(topic, 0))
        assert (cleanable.first_dirty_offset, cleanable.ratio) == (6, 0.0)
    assert cleaning.cleaner.counters.failures == 0


async def test_a_restart_cleans_everything_again(start: Callable, tmp_path: Path) -> None:
    """CLN-2, CLN-10: the checkpoint is on disk and is read back."""
    cleaning = await start()
    await cleaning.topic()
    for number in range(4):
        await cleaning.put("k", str(number))
    cleaning.roll()
    await cleaning.clean()
    checkpoint = tmp_path / "data" / CLEANER_OFFSET_CHECKPOINT
    assert checkpoint.read_text() == "0\n1\nt 0 4\n"
    again = Cleaning(cleaning.parts)
    assert again.cleaner.look_at(cleaning.parts.log("t", 0)).first_dirty_offset == 4
    assert await again.cleaner.stop(5)


async def test_a_young_record_is_compacted(start: Callable) -> None:
    """CLN-3: min.compaction.lag.ms by record timestamps, per segment."""
    cleaning = await start()
    await cleaning.topic(min_compaction_lag_ms="1000")
    for number in range(3):
        await cleaning.put("k", str(number))
        cleaning.roll()
        cleaning.clock.advance(600)
    await cleaning.clean()
    assert [value for _, _, value in cleaning.content()] == ["1", "2"]
    cleaning.clock.advance(500)
    await cleaning.clean()
    assert [value for _, _, value in cleaning.content()] == ["2"]


async def test_a_quiet_topic_is_never_compacted(start: Callable) -> None:
    """C024, CLN-5, CLN-16: max.compaction.lag.ms rolls and cleans below the dirty ratio."""
    cleaning = await start()
    options = {"min_cleanable_dirty_ratio": "0.9", "segment_ms": "86400000"}
    await cleaning.topic(max_compaction_lag_ms="2000", **options)
    await cleaning.topic("control", **options)
    for topic in ("t", "control"):
        for number in range(100):
            await cleaning.put(f"k{number}", "old", topic)
        cleaning.roll(topic)
        await cleaning.clean(topic)
        await cleaning.put("k7", "new", topic)
    cleaning.cleaner.look_for_work()
    assert cleaning.cleaner.look_at(cleaning.parts.log("t", 0)).overdue_ms == 0
    cleaning.clock.advance(2001)
    cleaning.cleaner.look_for_work()
    await cleaning.clean()
    values = {key: value for _, key, value in cleaning.content()}
    assert (len(cleaning.content()), values["k7"]) == (100, "new")
    assert len(cleaning.content("control")) == 101


async def test_a_young_record_in_front_hides_an_overdue_one(start: Callable) -> None:
    """CLN-5: timestamps do not ascend; the oldest of the dirty segments counts."""
    cleaning = await start()
    log = await cleaning.topic(max_compaction_lag_ms="2000", min_cleanable_dirty_ratio="1")
    await cleaning.put("k", "ahead", timestamp_ms=NOW_MS + 60_000)
    cleaning.roll()
    await cleaning.put("k", "old", timestamp_ms=NOW_MS - 5000)
    cleaning.roll()
    assert cleaning.cleaner.look_at(log).overdue_ms == 3000
    cleaning.cleaner.look_for_work()
    await cleaning.clean()
    assert [value for _, _, value in cleaning.content()] == ["old"]


async def test_tombstones_return_or_go_too_early(start: Callable) -> None:
    """C017, both variants, with its numbers."""
    cleaning = await start()
    await cleaning.topic("short", delete_retention_ms="1000")
    await cleaning.topic("long", delete_retention_ms="60000")
    for topic in ("short", "long"):
        for number in range(1, 101):
            await cleaning.put(f"k{number}", "v", topic)
        for number in range(1, 51):
            await cleaning.put(f"k{number}", None, topic)
        cleaning.roll(topic)
        await cleaning.clean(topic)
    cleaning.clock.advance(200)
    for topic in ("short", "long"):
        await cleaning.clean(topic)
        assert len(cleaning.content(topic)) == 100
        assert sum(value is None for _, _, value in cleaning.content(topic)) == 50
    cleaning.clock.advance(1500)
    for topic, left in (("short", 51), ("long", 101)):
        await cleaning.put("unrelated", "v", topic)
        cleaning.roll(topic)
        for _ in range(12):
            await cleaning.clean(topic)
        assert len(cleaning.content(topic)) == left


async def test_records_below_the_start_stay_or_stop_the_cleaner(start: Callable) -> None:
    """C013, with its numbers."""
    cleaning = await start(log_segment_delete_delay_ms="0")
    log = await cleaning.topic(segment_bytes="65536", file_delete_delay_ms="0")
    for number in range(5):
        for key in range(30):
            await cleaning.put(f"{number}-{key}", "x" * 100)
        cleaning.roll()
    active_base = log.segments.active.base_offset
    for number in range(20):
        await cleaning.put(f"a{number}", "v")
    assert len(log.segments) == 6
    result = await cleaning.parts.delete_records("t", 0, active_base + 10)
    assert (result.error, result.low_watermark) == (0, active_base + 10)
    for _ in range(2):
        assert (await cleaning.clean()).error is None
    assert len(log.segments) == 1
    for number in range(100):
        await cleaning.put(f"a{number % 10}", "w")
    cleaning.roll()
    assert (await cleaning.clean()).error is None
    assert not cleaning.cleaner.uncleanable
    assert log.offsets.log_start == active_base + 10
    last = {key: value for _, key, value in cleaning.content()}
    assert len(cleaning.content()) == 20
    assert (last["a3"], last["a13"]) == ("w", "v")


async def test_a_roll_of_a_quiet_topic_is_neither_counted_nor_synced(start: Callable) -> None:
    """ROLL-10, CLN-16: whichever task comes first, the cleaner or retention."""
    cleaning = await start()
    log = await cleaning.topic(max_compaction_lag_ms="1000", min_cleanable_dirty_ratio="0.9")
    await cleaning.put("k", "1")
    cleaning.clock.advance(2000)
    cleaning.cleaner.look_for_work()
    await cleaning.parts.quiet()
    assert cleaning.parts.services.counters.segment_rolls == 1
    assert log.offsets.recovery_point == 1


async def test_a_pass_that_ends_after_a_change_of_settings_brings_the_old_buffers_back(
    start: Callable,
) -> None:
    """Less memory for key maps was asked for, and the next pass takes what it took before."""
    cleaning = await start(log_cleaner_io_max_bytes_per_second="200000")
    log = await cleaning.topic(min_cleanable_dirty_ratio="1")
    for number in range(50):
        await cleaning.put(f"k{number}", "x" * 1000)
    cleaning.roll()
    await cleaning.parts.quiet()  # what was rolled has to be on disk
    asked = cleaning.cleaner.clean_now(log.topic_partition)
    room_for_two_keys = {"log.cleaner.dedupe.buffer.size": "72"}
    cleaning.cleaner.update_config(cleaning.parts.services.config.with_dynamic(room_for_two_keys))
    assert (await asyncio.wait_for(asked, 10)).error is None
    assert cleaning.cleaner.look_at(log).first_dirty_offset == 50
    for number in range(5):
        await cleaning.put(f"k{number}", "new")
    cleaning.roll()
    assert (await asyncio.wait_for(cleaning.clean(), 10)).error is None
    assert cleaning.cleaner.look_at(log).first_dirty_offset == 52


async def test_keyless_records_of_another_policy_end_compaction(start: Callable) -> None:
    """C018, topic Y: keyed records reduce to one, the keyless ones are all dropped."""
    cleaning = await start()
    await cleaning.topic(cleanup_policy="delete")
    log = cleaning.parts.log("t", 0)
    for number in range(10):
        await cleaning.put("same", str(number))
        batch = batch_of(b"keyless", key=None, timestamp_ms=NOW_MS)
        await cleaning.parts.produce([("t", 0, batch)])
    cleaning.roll()
    log.update_config(log.config.__class__(cleanup_policy=frozenset({"compact"})))
    for _ in range(2):
        assert (await cleaning.clean()).error is None
    assert [(key, value) for _, key, value in cleaning.content()] == [("same", "9")]
    assert cleaning.cleaner.counters.records_without_key == 10


async def test_a_fetch_in_flight_breaks_when_its_segment_is_swapped(start: Callable) -> None:
    """READ-13, SEG-6: the slice reads what it was made for, also after the files are gone."""
    cleaning = await start()
    log = await cleaning.topic(file_delete_delay_ms="0")
    for number in range(20):
        await cleaning.put("k", str(number))
    cleaning.roll()
    data = log.read(0, 1 << 20, isolation=FetchIsolation.HIGH_WATERMARK)
    before = data.slice.read()
    await cleaning.clean()
    for deletion in cleaning.parts.services.logs.housekeeping.take_due_deletions(NOW_MS + 1):
        deletion.run()
    assert not OsFileSystem().exists(data.slice.file.path)
    assert data.slice.read() == before
    data.slice.release()
    assert [value for _, _, value in cleaning.content()] == ["19"]


async def test_appends_wait_for_a_compaction(start: Callable) -> None:
    """Decision 4: a pass never stops an append; what came meanwhile is dirty afterwards."""
    cleaning = await start(log_cleaner_io_max_bytes_per_second="200000")
    await cleaning.topic()
    for number in range(50):
        await cleaning.put(f"k{number % 5}", "x" * 1000)
    cleaning.roll()
    await cleaning.parts.quiet()  # what was rolled has to be on disk
    asked = cleaning.cleaner.clean_now(TopicPartition("t", 0))
    appended = 0
    while not asked.done() and appended < 2000:
        await cleaning.put("new", str(appended))
        appended += 1
    await asked
    values = [value for _, key, value in cleaning.content() if key == "new"]
    assert values == [str(number) for number in range(appended)]
    assert sum(key != "new" for _, key, _ in cleaning.content()) == 5


async def test_progress_stands_still_while_the_key_map_is_built(
    start: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a long cleaning would look as if it did not move."""
    cleaning = await start()
    log = await cleaning.topic()
    for number in range(3):
        await cleaning.put("k", f"{number}" * 100)
        cleaning.roll()
    size = log.segments.first.size_bytes
    seen, read_into = list[tuple[int, int]](), LogFile.read_into

    def look_and_read(self: LogFile, position: int, target: memoryview) -> int:
        seen.append(cleaning.cleaner.progress_of(log.topic_partition))
        return read_into(self, position, target)

    with monkeypatch.context() as patched:
        patched.setattr(LogFile, "read_into", look_and_read)
        await cleaning.clean()
    assert seen == [(step * size, 6 * size) for step in range(6)]
    counters = cleaning.cleaner.counters
    assert (counters.bytes_mapped, counters.bytes_read) == (3 * size, 3 * size)


async def test_a_pass_that_began_before_the_question_answers_it(start: Callable) -> None:
    """Who rolls and asks for a cleaning gets one of what was rolled."""
    cleaning = await start(log_cleaner_io_max_bytes_per_second="200000")
    await cleaning.topic()
    for number in range(50):
        await cleaning.put(f"k{number % 5}", "x" * 1000)
    cleaning.roll()
    await cleaning.parts.quiet()  # what was rolled has to be on disk
    cleaning.cleaner.look_for_work()
    assert cleaning.cleaner.state_of(TopicPartition("t", 0)).value == "in progress"
    for number in range(5):
        await cleaning.put(f"k{number}", "last")
    cleaning.roll()
    await cleaning.clean()
    assert [value for _, _, value in cleaning.content()] == ["last"] * 5


def test_the_settings_of_the_cleaner_are_ignored() -> None:
    """The keys that a running cleaner takes over exist and are dynamic."""
    config = BrokerConfig().with_dynamic({"log.cleaner.threads": "2"})
    assert config.log_cleaner_threads == 2
    assert FakeClock().time_ms() > 0

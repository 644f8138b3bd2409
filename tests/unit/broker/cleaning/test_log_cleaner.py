"""Compaction of real logs beside appends: choosing, swapping, checkpointing, giving up."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from seglog.broker.cleaning.log_cleaner import LogCleaner
from seglog.broker.storage.errors import DiskFullError, NoDescriptorError, StorageError
from seglog.broker.storage.files import OsFileSystem
from seglog.broker.storage.layout import CLEANER_OFFSET_CHECKPOINT
from seglog.broker.storage.log import FetchIsolation, Log
from seglog.broker.storage.segment import LogSegment
from seglog.config import BrokerConfig, LogConfig
from seglog.protocol.records.batch import iter_batches
from seglog.protocol.types import TopicPartition
from support.broker_parts import NOW_MS, BrokerParts, batch_of
from support.fake_clock import FakeClock

COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}


class Cleaning:
    """A broker's parts with a cleaner over them."""

    def __init__(self, parts: BrokerParts) -> None:
        self.parts = parts
        self.clock = parts.services.clock
        self.failed: list[StorageError] = []
        self.cleaner = LogCleaner(
            parts.services.config,
            parts.services.logs,
            OsFileSystem(),
            parts.services.clock,
            run_blocking=parts.services.workers.background.run,
            storage_failed=lambda _log, error: self.failed.append(error),
            roll_overdue=parts.services.background.roll_overdue,
        )

    async def topic(self, name: str = "t", **configs: str) -> Log:
        settings = COMPACT | {key.replace("_", "."): value for key, value in configs.items()}
        await self.parts.create_topic(name, 1, settings)
        return self.parts.log(name, 0)

    async def put(self, key: str, value: str | None, topic: str = "t", **options) -> None:
        encoded = None if value is None else value.encode()
        batch = batch_of(encoded, key=key.encode(), **({"timestamp_ms": self.now_ms} | options))
        (result,) = await self.parts.produce([(topic, 0, batch)])
        assert result.error == 0, result

    @property
    def now_ms(self) -> int:
        return self.clock.time_ms()

    def roll(self, topic: str = "t") -> None:
        self.parts.partition(topic, 0).roll(self.now_ms)

    async def clean(self, topic: str = "t"):
        outcome = await self.cleaner.clean_now(TopicPartition(topic, 0))
        await self.parts.quiet()
        return outcome

    def content(self, topic: str = "t") -> list[tuple[int, str, str | None]]:
        log = self.parts.log(topic, 0)
        offset, found = log.offsets.log_start, []
        while True:
            data = log.read(offset, 1 << 20, isolation=FetchIsolation.HIGH_WATERMARK)
            if data.slice is None or not data.slice.length:
                return found
            for batch in iter_batches(data.slice.read()):
                for record in batch.records(from_offset=offset):
                    value = None if record.value is None else record.value.decode()
                    found.append((record.offset, record.key.decode(), value))
                offset = batch.header.next_offset
            data.slice.release()


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Callable]:
    started: list[Cleaning] = []

    async def begin(**settings: str) -> Cleaning:
        parts = await BrokerParts.start(
            tmp_path, {key.replace("_", "."): value for key, value in settings.items()}
        )
        started.append(Cleaning(parts))
        return started[-1]

    yield begin
    for cleaning in started:
        assert await cleaning.cleaner.stop(5)
        await cleaning.parts.stop()


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


@pytest.mark.parametrize("content", [b"", b"\0" * 12, b"0\n1\nt", b"99\n1\nt 0 4\n"])
async def test_a_damaged_checkpoint_stops_the_broker(
    start: Callable, tmp_path: Path, content: bytes
) -> None:
    """C029: the log is cleaned from its start again."""
    cleaning = await start()
    log = await cleaning.topic()
    await cleaning.put("k", "1")
    (tmp_path / "data" / CLEANER_OFFSET_CHECKPOINT).write_bytes(content)
    again = Cleaning(cleaning.parts)
    assert again.cleaner.look_at(log).first_dirty_offset == 0
    assert await again.cleaner.stop(5)


async def test_a_checkpoint_beyond_the_log_hides_what_is_dirty(
    start: Callable, tmp_path: Path
) -> None:
    """CLN-2: it does not come into force either when the log has grown that far."""
    cleaning = await start()
    log = await cleaning.topic()
    await cleaning.put("k", "1")
    (tmp_path / "data" / CLEANER_OFFSET_CHECKPOINT).write_text("0\n2\nt 0 2\ngone 0 7\n")
    again = Cleaning(cleaning.parts)
    await again.put("k", "2")
    again.roll()
    await again.put("k", "3")
    assert again.cleaner.look_at(log).first_dirty_offset == 0
    await again.clean()
    assert [value for _, _, value in again.content()] == ["2", "3"]
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


def damage_end_of(path: Path) -> bytes:
    """Change the last bytes of a file; what it held before."""
    sound = path.read_bytes()
    path.write_bytes(sound[:-2] + b"\xff\xff")
    return sound


def restore(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def test_a_damaged_log_stops_the_others_or_is_tried_for_ever(
    start: Callable, tmp_path: Path
) -> None:
    """CLN-8: marked with its reason; the others go on; asking for it tries again."""
    cleaning = await start()
    log = await cleaning.topic("bad")
    await cleaning.topic("good")
    for topic in ("bad", "good"):
        for number in range(3):
            await cleaning.put("k", str(number), topic)
        cleaning.roll(topic)
    path = Path(log.segments.first.log.path)
    sound = damage_end_of(path)
    cleaning.cleaner.look_for_work()
    await cleaning.clean("good")
    assert len(cleaning.content("good")) == 1
    reason = cleaning.cleaner.uncleanable[TopicPartition("bad", 0)]
    assert str(path) in reason
    assert cleaning.cleaner.counters.failures == 1
    cleaning.cleaner.look_for_work()
    await cleaning.parts.quiet()
    assert cleaning.cleaner.counters.failures == 1

    restore(path, sound)
    assert (await cleaning.clean("bad")).error is None
    assert not cleaning.cleaner.uncleanable
    assert [value for _, _, value in cleaning.content("bad")] == ["2"]


async def test_a_moment_without_descriptors_ends_compaction_of_a_log_for_good(
    start: Callable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """CLN-8: whoever looks, a scrape of the metrics as well; it is looked at again later."""
    cleaning = await start()
    log = await cleaning.topic(min_compaction_lag_ms="1")
    for number in range(3):
        await cleaning.put("k", str(number))
    cleaning.roll()
    cleaning.clock.advance(1000)

    def refuse(*_arguments: object) -> int:
        raise NoDescriptorError("open", "00.timeindex", "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(LogSegment, "largest_timestamp_ms", property(refuse))
        for _ in range(3):
            assert cleaning.cleaner.look_at(log).cleanable_bytes == 0
        outcome = await asyncio.wait_for(cleaning.clean(), 10)
    assert "Too many open files" in str(outcome.error)
    assert (len(cleaning.content()), cleaning.cleaner.uncleanable) == (3, {})
    assert caplog.text.count("event=cleaning-postponed") == 1
    cleaning.clock.advance(15_000)
    cleaning.clock.jump_wall(-3_600_000)
    cleaning.clock.jump_wall(3_600_000)
    cleaning.cleaner.look_for_work()
    await cleaning.clean()
    assert [value for _, _, value in cleaning.content()] == ["2"]


async def test_a_full_disk_keeps_what_compaction_has_replaced(
    start: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C028: for file.delete.delay.ms, while each pass fails for want of that room."""
    cleaning = await start()
    log = await cleaning.topic()
    for value in ("old", "new"):
        await cleaning.put("k", value)
    cleaning.roll()
    await cleaning.clean()
    housekeeping = cleaning.parts.services.logs.housekeeping
    assert housekeeping.take_due_deletions(cleaning.now_ms) == []
    await cleaning.put("k", "newer")
    cleaning.roll()

    def find_no_room(*_arguments: object) -> None:
        raise DiskFullError("rename", "00.log.cleaned", "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(log, "replace_segments", find_no_room)
        assert "No space" in str((await cleaning.clean()).error)
    assert len(housekeeping.take_due_deletions(cleaning.now_ms)) == 1
    assert not cleaning.cleaner.uncleanable


async def test_a_request_to_clean_what_is_clean_is_reported_as_trouble(
    start: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    """CLN-11: only a pass that got nowhere although something was dirty is worth a warning."""
    cleaning = await start()
    await cleaning.topic()
    await cleaning.put("k", "value")
    cleaning.roll()
    for _ in range(3):
        assert (await cleaning.clean()).error is None
    assert "event=cleaning-postponed" not in caplog.text


async def test_a_request_to_clean_is_done_although_a_file_cannot_be_read(start: Callable) -> None:
    """CLN-8: somebody has removed the data file; the answer has to say so."""
    cleaning = await start()
    log = await cleaning.topic(max_compaction_lag_ms="1000")
    for number in range(3):
        await cleaning.put("k", str(number))
    parts = cleaning.parts = await cleaning.parts.restart()
    cleaning = Cleaning(parts)
    log = parts.log("t", 0)
    log.roll(NOW_MS)
    path = log.segments.first.log.path
    OsFileSystem().unlink(path)
    cleaning.clock.advance(2000)
    outcome = await asyncio.wait_for(cleaning.clean(), 10)
    assert path in str(outcome.error)
    assert path in cleaning.cleaner.uncleanable[log.topic_partition]
    assert await cleaning.cleaner.stop(5)


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


async def test_a_defect_at_the_end_of_a_pass_keeps_a_deletion_waiting_for_ever(
    start: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CLN-9."""
    cleaning = await start()
    await cleaning.topic()
    for number in range(3):
        await cleaning.put("k", str(number))
    cleaning.roll()
    defects: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: defects.append(context))

    def fail(*_arguments: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(cleaning.cleaner, "_take_outcome", fail)
    cleaning.cleaner.look_for_work()
    async with asyncio.timeout(10):
        await cleaning.cleaner.abort_and_pause(TopicPartition("t", 0))
    assert len(defects) == 1


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


async def test_a_topic_is_deleted_while_it_is_cleaned(start: Callable) -> None:
    """CLN-9: the pass ends first; a new topic of the same name starts dirty."""
    cleaning = await start()
    await cleaning.topic()
    for number in range(200):
        await cleaning.put(f"k{number % 5}", "x" * 1000)
    cleaning.roll()
    asked = cleaning.cleaner.clean_now(TopicPartition("t", 0))
    await cleaning.cleaner.abort_and_pause(TopicPartition("t", 0))
    await cleaning.parts.delete_topic("t")
    cleaning.cleaner.forget(TopicPartition("t", 0))
    outcome = await asyncio.wait_for(asked, 10)
    assert outcome.error is None or "stopped" in str(outcome.error) or "more" in str(outcome.error)
    log = await cleaning.topic()
    assert cleaning.cleaner.look_at(log).first_dirty_offset == 0
    assert not cleaning.cleaner.uncleanable


async def test_a_topic_is_compacted_although_its_policy_is_to_delete_by_now(
    start: Callable,
) -> None:
    """CLN-13: the pass ends at its next chunk, in the middle of a wait for its rate as well."""
    cleaning = await start(log_cleaner_io_max_bytes_per_second="100")
    log = await cleaning.topic()
    for number in range(50):
        await cleaning.put(f"k{number % 5}", "x" * 1000)
    cleaning.roll()
    asked = cleaning.cleaner.clean_now(TopicPartition("t", 0))
    log.update_config(LogConfig(cleanup_policy=frozenset({"delete"})))
    outcome = await asyncio.wait_for(asked, 10)
    assert "stopped" in str(outcome.error)
    assert len(cleaning.content()) == 50
    assert not cleaning.cleaner.uncleanable


async def test_a_deletion_waits_for_a_throttled_pass(start: Callable) -> None:
    """CLN-9: for 500 seconds here."""
    cleaning = await start(log_cleaner_io_max_bytes_per_second="100")
    await cleaning.topic()
    for number in range(50):
        await cleaning.put(f"k{number % 5}", "x" * 1000)
    cleaning.roll()
    cleaning.cleaner.look_for_work()
    async with asyncio.timeout(10):
        await cleaning.cleaner.abort_and_pause(TopicPartition("t", 0))
    cleaning.cleaner.resume(TopicPartition("t", 0))


async def test_appends_wait_for_a_compaction(start: Callable) -> None:
    """Decision 4: a pass never stops an append; what came meanwhile is dirty afterwards."""
    cleaning = await start(log_cleaner_io_max_bytes_per_second="200000")
    await cleaning.topic()
    for number in range(50):
        await cleaning.put(f"k{number % 5}", "x" * 1000)
    cleaning.roll()
    asked = cleaning.cleaner.clean_now(TopicPartition("t", 0))
    appended = 0
    while not asked.done() and appended < 2000:
        await cleaning.put("new", str(appended))
        appended += 1
    await asked
    values = [value for _, key, value in cleaning.content() if key == "new"]
    assert values == [str(number) for number in range(appended)]
    assert sum(key != "new" for _, key, _ in cleaning.content()) == 5


async def test_a_pass_that_began_before_the_question_answers_it(start: Callable) -> None:
    """Who rolls and asks for a cleaning gets one of what was rolled."""
    cleaning = await start(log_cleaner_io_max_bytes_per_second="200000")
    await cleaning.topic()
    for number in range(50):
        await cleaning.put(f"k{number % 5}", "x" * 1000)
    cleaning.roll()
    cleaning.cleaner.look_for_work()
    assert cleaning.cleaner.state_of(TopicPartition("t", 0)).value == "in progress"
    for number in range(5):
        await cleaning.put(f"k{number}", "last")
    cleaning.roll()
    await cleaning.clean()
    assert [value for _, _, value in cleaning.content()] == ["last"] * 5


async def test_a_stop_waits_for_a_long_pass(start: Callable) -> None:
    """SEG-8: a throttled pass ends within its deadline and leaves no file."""
    cleaning = await start(log_cleaner_io_max_bytes_per_second="1000")
    log = await cleaning.topic()
    for number in range(50):
        await cleaning.put(f"k{number % 5}", "x" * 1000)
    cleaning.roll()
    cleaning.cleaner.clean_now(TopicPartition("t", 0))
    assert await cleaning.cleaner.stop(5)
    assert not [name for name in OsFileSystem().list_directory(log.directory) if "cleaned" in name]


def test_the_settings_of_the_cleaner_are_ignored() -> None:
    """The keys that a running cleaner takes over exist and are dynamic."""
    config = BrokerConfig().with_dynamic({"log.cleaner.threads": "2"})
    assert config.log_cleaner_threads == 2
    assert FakeClock().time_ms() > 0


async def test_defect_while_segments_are_exchanged_stops_the_cleaner_for_good(
    start: Callable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """CLN-8: its log is left alone with the reason, and the one thread cleans the others."""
    cleaning = await start()
    for topic in ("bad", "good"):
        await cleaning.topic(topic)
        for number in range(4):
            await cleaning.put("k", str(number), topic)
        cleaning.roll(topic)
    bad = cleaning.parts.log("bad", 0)

    def fail(*_arguments: object) -> None:
        raise ZeroDivisionError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr(bad, "replace_segments", fail)
        outcome = await asyncio.wait_for(cleaning.clean("bad"), 10)
    assert "ZeroDivisionError: a defect" in str(outcome.error)
    assert cleaning.cleaner.uncleanable == {bad.topic_partition: "ZeroDivisionError: a defect"}
    assert cleaning.cleaner.counters.failures == 1
    (line,) = [record for record in caplog.records if "event=cleaner-bug" in record.message]
    assert line.exc_info
    assert len(cleaning.content("bad")) == 4
    assert (await asyncio.wait_for(cleaning.clean("good"), 10)).error is None
    assert [value for _, _, value in cleaning.content("good")] == ["3"]
    assert (await asyncio.wait_for(cleaning.clean("bad"), 10)).error is None
    assert [value for _, _, value in cleaning.content("bad")] == ["3"]

"""Compaction of real logs when something comes between: damage, full disks, deletions, stops."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from seglog.broker.cleaning.pass_results import PassResults
from seglog.broker.storage.errors import (
    ClosedFileError,
    DiskFullError,
    FileError,
    NoDescriptorError,
    StorageError,
)
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.files.layout import CLEANER_OFFSET_CHECKPOINT
from seglog.broker.storage.files.log_file import LogFile
from seglog.broker.storage.log.exchange import ExchangeUnderWayError
from seglog.broker.storage.segment.segment import LogSegment
from seglog.config import LogConfig
from seglog.protocol.types import TopicPartition
from support.broker_parts import NOW_MS
from support.cleaning_broker import Cleaning


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
    """CLN-2: it does not come into force either when the log has grown that far.

    Nor for the next start, which finds the log grown: it is written anew at once. A copy that was
    made of a running broker has it, or a disk that has lost the end of the log.
    """
    cleaning = await start()
    log = await cleaning.topic()
    await cleaning.put("k", "1")
    (tmp_path / "data" / CLEANER_OFFSET_CHECKPOINT).write_text("0\n2\nt 0 2\ngone 0 7\n")
    again = Cleaning(cleaning.parts)
    await again.parts.quiet()
    assert (tmp_path / "data" / CLEANER_OFFSET_CHECKPOINT).read_text() == "0\n0\n"
    await again.put("k", "2")
    again.roll()
    await again.put("k", "3")
    assert again.cleaner.look_at(log).first_dirty_offset == 0
    await again.clean()
    assert [value for _, _, value in again.content()] == ["2", "3"]
    assert await again.cleaner.stop(5)


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
    await cleaning.parts.quiet()  # what was rolled has to be on disk
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
        patched.setattr(log, "begin_exchange", find_no_room)
        assert "No space" in str((await cleaning.clean()).error)
    assert len(housekeeping.take_due_deletions(cleaning.now_ms)) == 1
    assert not cleaning.cleaner.uncleanable


@pytest.mark.parametrize("is_disk_to_blame", [True, False])
async def test_a_failing_disk_passes_for_retention_once_segments_were_merged(
    start: Callable,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_disk_to_blame: bool,
) -> None:
    """CLN-8: the directory goes offline; a segment that retention took is no fault of its disk."""
    cleaning = await start()
    log = await cleaning.topic(segment_bytes="1000")
    for number in range(4):
        await cleaning.put(f"k{number}", "x" * 300)
        cleaning.roll()
    count_before, read_into, raised = len(log.segments), LogFile.read_into, list[StorageError]()

    def read_after_a_swap(self: LogFile, position: int, target: memoryview) -> int:
        if len(log.segments) == count_before:
            return read_into(self, position, target)
        self.close()
        try:
            if is_disk_to_blame:
                raise FileError("read", self.path, "Input/output error")
            return read_into(self, position, target)
        except StorageError as error:
            raised.append(error)
            raise

    monkeypatch.setattr(LogFile, "read_into", read_after_a_swap)
    outcome = await asyncio.wait_for(cleaning.clean(), 10)
    assert [outcome.error] == raised
    assert isinstance(outcome.error, ClosedFileError) is not is_disk_to_blame
    assert cleaning.failed == (raised if is_disk_to_blame else [])
    assert (log.topic_partition in cleaning.cleaner.uncleanable) is is_disk_to_blame
    assert ("a segment was deleted or cut meanwhile" in caplog.text) is not is_disk_to_blame


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

    monkeypatch.setattr(PassResults, "take", fail)
    await cleaning.parts.quiet()  # what was rolled has to be on disk
    cleaning.cleaner.look_for_work()
    async with asyncio.timeout(10):
        await cleaning.cleaner.abort_and_pause(TopicPartition("t", 0))
    assert len(defects) == 1


async def test_a_topic_is_deleted_while_it_is_cleaned(start: Callable) -> None:
    """CLN-9: the pass ends first; a new topic of the same name starts dirty."""
    cleaning = await start()
    await cleaning.topic()
    for number in range(200):
        await cleaning.put(f"k{number % 5}", "x" * 1000)
    cleaning.roll()
    await cleaning.parts.quiet()  # what was rolled has to be on disk
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
    await cleaning.parts.quiet()  # what was rolled has to be on disk
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
    await cleaning.parts.quiet()  # what was rolled has to be on disk
    cleaning.cleaner.look_for_work()
    async with asyncio.timeout(10):
        await cleaning.cleaner.abort_and_pause(TopicPartition("t", 0))
    cleaning.cleaner.resume(TopicPartition("t", 0))


async def test_a_stop_waits_for_a_long_pass(start: Callable) -> None:
    """SEG-8: a throttled pass ends within its deadline and leaves no file."""
    cleaning = await start(log_cleaner_io_max_bytes_per_second="1000")
    log = await cleaning.topic()
    for number in range(50):
        await cleaning.put(f"k{number % 5}", "x" * 1000)
    cleaning.roll()
    await cleaning.parts.quiet()  # what was rolled has to be on disk
    cleaning.cleaner.clean_now(TopicPartition("t", 0))
    assert await cleaning.cleaner.stop(5)
    assert not [name for name in OsFileSystem().list_directory(log.directory) if "cleaned" in name]


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
        patched.setattr(bad, "begin_exchange", fail)
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


@pytest.mark.parametrize("cause", ["another exchange", "no descriptor"])
async def test_an_exchange_that_cannot_begin_leaves_no_new_files(
    start: Callable, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    """SEG-6: nothing refers to them any more, and only the next start would remove them."""
    cleaning = await start()
    log = await cleaning.topic()
    for number in range(4):
        await cleaning.put("k", str(number))
    cleaning.roll()

    def refuse(*_arguments: object, **_named: object) -> None:
        if cause == "another exchange":
            raise ExchangeUnderWayError("t-0")
        raise NoDescriptorError("open", "00.log", "Too many open files")

    with monkeypatch.context() as patched:
        if cause == "another exchange":
            patched.setattr(log, "begin_exchange", refuse)
        else:
            patched.setattr(LogSegment, "open", refuse)
        outcome = await asyncio.wait_for(cleaning.clean(), 10)
    assert outcome.error is not None
    names = OsFileSystem().list_directory(log.directory)
    assert not [name for name in names if ".cleaned" in name]
    assert len(cleaning.content()) == 4

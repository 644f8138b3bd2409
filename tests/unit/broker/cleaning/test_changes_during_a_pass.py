"""What changes a log while it is cleaned, and what frees one that could not be cleaned."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from seglog.broker.cleaning.pass_results import is_of_reading
from seglog.broker.storage.cleaner.cleaned_segment import CleanedSegments
from seglog.broker.storage.errors import CorruptLogError, DiskFullError, FileError
from seglog.broker.storage.log.log import Log
from seglog.protocol.types import TopicPartition
from support.cleaning_broker import Cleaning
from support.log_builder import names_in, open_log, read_all, truncate

LOG = TopicPartition("t", 0)


def before_the_swap(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Have the loop do something once, when a group is written and not yet swapped in."""
    loop, finish = asyncio.get_running_loop(), CleanedSegments.finish
    actions = [action]

    async def act() -> None:
        actions.pop()()

    def finish_and_act(self: CleanedSegments, modified_ms: int) -> None:
        finish(self, modified_ms)
        if actions:
            asyncio.run_coroutine_threadsafe(act(), loop).result(10)

    monkeypatch.setattr(CleanedSegments, "finish", finish_and_act)


async def four_segments(cleaning: Cleaning, **configs: str) -> Log:
    """k0 to k3 in segments of their own, k3 twice; the active one holds k4."""
    await cleaning.topic("other")
    log = await cleaning.topic(**configs)
    for number in range(4):
        await cleaning.put(f"k{number}", "1")
        if number == 3:
            await cleaning.put("k3", "2")
        cleaning.roll()
        cleaning.clock.advance(1000)
    await cleaning.put("k4", "1")
    await cleaning.parts.quiet()  # what was rolled has to be on disk
    return log


async def test_retention_during_a_pass_is_not_undone(
    start: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S14, SEG-7: what was deleted stays so, for a start that knows no log start offset as well."""
    cleaning = await start()
    log = await four_segments(
        cleaning,
        cleanup_policy="compact,delete",
        retention_ms="10000",
        min_cleanable_dirty_ratio="1",
    )

    def delete_two_segments() -> None:
        cleaning.clock.advance(8000)
        retention = cleaning.parts.services.logs.housekeeping.retention
        assert len(retention.run(cleaning.now_ms, only={"t"}, dry_run=False)) == 2
        retention.take_away([log], cleaning.now_ms)

    before_the_swap(monkeypatch, delete_two_segments)
    assert "retention has deleted" in str((await cleaning.clean()).error)
    assert log.segments.base_offsets[0] == log.offsets.log_start == 2
    assert names_in(log.directory, ".cleaned") == []
    expected = [(2, "k2", "1"), (3, "k3", "1"), (4, "k3", "2"), (5, "k4", "1")]
    assert cleaning.content() == expected
    copy = shutil.copytree(log.directory, tmp_path / "copy")
    assert [record.offset for record in read_all(open_log(copy, log.config))] == [2, 3, 4, 5]

    assert (await cleaning.clean()).error is None
    assert [offset for offset, *_ in cleaning.content()] == [2, 4, 5]
    assert not cleaning.cleaner.uncleanable


@pytest.mark.parametrize("has_grown_again", [False, True])
async def test_a_truncation_during_a_pass_is_not_undone(
    start: Callable, monkeypatch: pytest.MonkeyPatch, has_grown_again: bool
) -> None:
    """T10: not even where the segment has its size of before again."""
    cleaning = await start()
    log = await four_segments(cleaning, min_cleanable_dirty_ratio="1")
    size = log.segments.get(3).size_bytes
    grown = asyncio.Event()

    def cut() -> None:
        truncate(log, 4)
        grown.set()

    before_the_swap(monkeypatch, cut)
    outcome = cleaning.cleaner.clean_now(LOG)
    await asyncio.wait_for(grown.wait(), 10)
    if has_grown_again:
        await cleaning.put("k3", "3")
        cleaning.roll()
        assert log.segments.get(3).size_bytes == size
    assert "was truncated" in str((await asyncio.wait_for(outcome, 10)).error)
    await cleaning.parts.quiet()
    assert (3, "k3", "1") in cleaning.content()
    assert (4, "k3", "2") not in cleaning.content()
    assert not cleaning.cleaner.uncleanable


async def test_what_follows_a_truncation_does_not_pass_for_clean(start: Callable) -> None:
    """CLN-2, T10: the checkpoint of before lies within the log again when it has grown."""
    cleaning = await start()
    log = await four_segments(cleaning)
    assert (await cleaning.clean()).error is None
    assert cleaning.cleaner.look_at(log).first_dirty_offset == 5
    truncate(log, 1)
    for number in range(10):
        await cleaning.put("k0", str(number))
    cleaning.roll()
    assert cleaning.cleaner.look_at(log).first_dirty_offset == 0
    assert (await cleaning.clean()).error is None
    assert [value for _, key, value in cleaning.content() if key == "k0"] == ["9"]


def damage(log: Log, base_offset: int) -> Path:
    """Damage a segment; where it lies."""
    path = Path(log.segments.get(base_offset).log.path)
    content = path.read_bytes()
    path.write_bytes(content[:-2] + b"\xff\xff")
    os.utime(path, (1_600_000_000, 1_600_000_000))
    return path


def mend(path: Path) -> None:
    """Take back what ``damage`` did: a batch ends with the value 1 and no headers."""
    path.write_bytes(path.read_bytes()[:-2] + b"1\0")


async def look_again(cleaning: Cleaning) -> int:
    """What the task of the cleaner does, and its end; how many passes have failed until then."""
    cleaning.clock.advance(15_000)
    cleaning.cleaner.look_for_work()
    await asyncio.wait_for(cleaning.clean("other"), 10)  # by the same thread, so that it is free
    return cleaning.cleaner.counters.failures


async def test_an_uncleanable_log_is_tried_again_when_records_were_deleted(
    start: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    """U4: not before, and not for a log start in front of the damage."""
    cleaning = await start()
    damage(await four_segments(cleaning), 2)
    assert await look_again(cleaning) == 1
    assert "event=cleaner-read-failed" in caplog.text
    assert "event=cleaner-write-failed" not in caplog.text
    for log_start in (None, 1, 2):
        if log_start is not None:
            await cleaning.parts.delete_records("t", 0, log_start)
        assert await look_again(cleaning) == 1
        assert cleaning.cleaner.uncleanable
    await cleaning.parts.delete_records("t", 0, 3)
    await look_again(cleaning)
    assert not cleaning.cleaner.uncleanable
    assert cleaning.content() == [(4, "k3", "2"), (5, "k4", "1")]


async def test_an_uncleanable_log_is_tried_again_when_its_file_was_replaced(
    start: Callable,
) -> None:
    """U4: and left alone again if that was no better."""
    cleaning = await start()
    log = await four_segments(cleaning)
    path = damage(log, 2)
    for changed_s, failures in (0, 1), (0, 1), (100, 2), (100, 2):
        os.utime(path, (1_600_000_000 + changed_s,) * 2)
        assert await look_again(cleaning) == failures
    mend(path)
    assert await look_again(cleaning) == 2
    assert not cleaning.cleaner.uncleanable
    assert [offset for offset, *_ in cleaning.content()] == [0, 1, 2, 4, 5]


async def test_an_uncleanable_log_is_tried_again_when_the_segment_is_gone(
    start: Callable,
) -> None:
    """U4."""
    cleaning = await start()
    log = await four_segments(cleaning, cleanup_policy="compact,delete", retention_ms="10000")
    damage(log, 0)
    assert await look_again(cleaning) == 1
    assert cleaning.cleaner.uncleanable
    await cleaning.parts.services.background.run_retention(only={"t"})
    assert 0 not in log.segments
    await look_again(cleaning)
    assert not cleaning.cleaner.uncleanable


def test_a_file_that_cannot_be_read_is_no_file_that_cannot_be_written() -> None:
    assert is_of_reading(FileError("read", "00.log", "Input/output error"))
    assert is_of_reading(CorruptLogError("00.log", 0, "no batch"))
    assert not is_of_reading(FileError("rename", "00.log", "Input/output error"))
    assert not is_of_reading(DiskFullError("append to", "00.log", "No space left"))

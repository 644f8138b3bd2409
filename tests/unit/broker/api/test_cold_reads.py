"""Fetches of data that is no longer in memory must not hold up other requests."""

import asyncio
import logging
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from seglog.broker.api import cold_reads
from seglog.broker.requests.context import Pending
from seglog.broker.storage.errors import FileError
from seglog.broker.storage.files.log_file import FileSlice
from support.broker_parts import BrokerParts, batch_of


class SlowDisk:
    """Takes the place of the disk: data below ``hanging`` is cold until ``go``, and takes as long.

    Data below ``cold`` is cold until it is read.
    """

    def __init__(self) -> None:
        self.hanging = self.cold = "old-0"
        self.go = threading.Event()
        self.began = threading.Event()
        self.slices: list[FileSlice] = []
        self.error: OSError | None = None

    def is_resident(self, file_slice: FileSlice) -> bool:
        path = file_slice.file.path
        return not (self.hanging in path or self.cold in path) or self.go.is_set()

    def bring_in(self, slices: Iterable[FileSlice]) -> None:
        slices = list(slices)
        if self.hanging not in slices[0].file.path:
            return
        self.slices = slices
        self.began.set()
        assert self.go.wait(10)
        assert all(each.fileno() >= 0 for each in self.slices), "released while it is read"
        if self.error is not None:
            raise self.error


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    slow = SlowDisk()
    monkeypatch.setattr(cold_reads, "is_resident", slow.is_resident)
    monkeypatch.setattr(cold_reads, "bring_in", slow.bring_in)
    yield slow
    slow.go.set()


async def begin_cold_fetch(broker: BrokerParts) -> Pending[object]:
    for topic in ("old", "new"):
        await broker.create_topic(topic)
        await broker.produce([(topic, 0, batch_of(b"value"))])
    pending = broker.begin_fetch([("old", 0, 0), ("new", 0, 0)])
    assert isinstance(pending, Pending), "it is read on the event loop"
    return pending


async def test_others_are_served_while_a_cold_fetch_waits_for_its_disk(
    broker: BrokerParts, disk: SlowDisk
) -> None:
    cold = await begin_cold_fetch(broker)
    assert await asyncio.to_thread(disk.began.wait, 10)
    assert len(disk.slices) == 1
    (part,) = (await broker.fetch([("new", 0, 0)])).partitions
    assert broker.values_of(part) == [b"value"]
    await broker.produce([("new", 0, batch_of(b"another"))])
    assert not cold.future.done()
    disk.go.set()
    response = await cold.future
    assert [broker.values_of(each) for each in response.partitions] == [[b"value"], [b"value"]]
    assert broker.services.counters.cold_fetches == 1


async def test_client_that_goes_away_leaves_no_file_open(
    broker: BrokerParts, disk: SlowDisk
) -> None:
    """Let go of when the worker has read them, not before: it reads through the descriptor."""
    cold = await begin_cold_fetch(broker)
    assert await asyncio.to_thread(disk.began.wait, 10)
    cold.future.cancel()
    disk.go.set()
    await broker.quiet()
    (file_slice,) = disk.slices
    with pytest.raises(FileError, match="released"):
        file_slice.fileno()


async def test_unreadable_old_data_is_left_to_the_sender_and_logged(
    broker: BrokerParts, disk: SlowDisk, caplog: pytest.LogCaptureFixture
) -> None:
    cold = await begin_cold_fetch(broker)
    disk.error = OSError(5, "Input/output error")
    disk.go.set()
    with caplog.at_level(logging.WARNING):
        response = await cold.future
    assert "event=read-ahead-failed" in caplog.text
    assert response.partitions[0].records.length > 0


async def test_a_disk_that_hangs_holds_up_no_reader_of_another_one(
    tmp_path: Path, disk: SlowDisk
) -> None:
    """S8: however many fetches wait for it."""
    first, second = tmp_path / "a", tmp_path / "b"
    broker = await BrokerParts.start(tmp_path, {"log.dirs": f"{first},{second}"})
    await broker.create_topic("t", 2)
    hanging, healthy = sorted((0, 1), key=lambda each: broker.log("t", each).directory)
    for number in (hanging, healthy):
        await broker.produce([("t", number, batch_of(b"value"))])
    disk.hanging = f"{first}/"
    waiting = [broker.begin_fetch([("t", hanging, 0)]) for _ in range(9)]
    assert await asyncio.to_thread(disk.began.wait, 10)
    disk.cold = f"{second}/"
    async with asyncio.timeout(10):
        (part,) = (await broker.fetch([("t", healthy, 0)])).partitions
    assert broker.values_of(part) == [b"value"]
    disk.go.set()
    for each in waiting:
        assert isinstance(each, Pending)
        (part,) = (await each.future).partitions
        assert broker.values_of(part) == [b"value"]
    await broker.stop()

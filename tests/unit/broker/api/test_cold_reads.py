"""Fetches of data that is no longer in memory must not hold up other requests."""

import asyncio
import logging
import threading
from collections.abc import Iterable, Iterator

import pytest

from seglog.broker.api import cold_reads
from seglog.broker.requests.context import Pending
from seglog.broker.storage.errors import FileError
from seglog.broker.storage.files.log_file import FileSlice
from support.broker_parts import BrokerParts, batch_of


class SlowDisk:
    """Takes the place of the disk: data of one topic is cold until ``go``."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.began = threading.Event()
        self.slices: list[FileSlice] = []
        self.error: OSError | None = None

    def is_resident(self, file_slice: FileSlice) -> bool:
        return "old-0" not in file_slice.file.path or self.go.is_set()

    def bring_in(self, slices: Iterable[FileSlice]) -> None:
        self.slices = list(slices)
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

"""A broker's life under an interleaving: what it writes, and what must be true meanwhile."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from seglog.broker.errors import RequestError
from seglog.broker.partition.partition import Partition
from seglog.broker.runtime.workers import WorkerPool, WorkersStoppedError, run_parallel
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.log.log import AppendInfo, FetchIsolation, Log
from seglog.broker.storage.log.producer_state import AppendOrigin
from seglog.protocol.errors import SeglogError
from seglog.protocol.records.control import ControlType, build_marker
from seglog.protocol.types import Acks, TopicPartition
from support.broker_parts import BrokerParts, batch_of
from support.cleaning_broker import Cleaning
from support.fake_clock import FakeClock
from support.interleaving import Interleaving, OrderedLoop
from support.ledger import Ledger, Written
from support.page_cache import HangingSync, OrderedCalls, PageCache

_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
_MARKER = ".kafka_cleanshutdown"
_PATIENCE_SECONDS = 30.0


class Place(NamedTuple):
    """Where the batch of an append lies: bytes of a data file."""

    log: Log
    next_offset: int
    inode: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"offset {self.next_offset - 1} at {self.start} of {self.log!r}"


@dataclass
class Pending:
    """An append whose answer waits for a sync."""

    place: Place
    answer: "asyncio.Future[None] | None"


class Promises:
    """What must be true after every turn of the loop (INV-1, INV-3, FLUSH-3)."""

    def __init__(self, cache: PageCache) -> None:
        self._cache = cache
        self._pending: list[Pending] = []
        self._below: dict[Log, deque[Place]] = {}
        self._seen: dict[Log, tuple[int, list[int]]] = {}

    def appended(self, place: Place, answer: "asyncio.Future[None] | None") -> None:
        """A batch was appended; what it says of the disk is looked at from now on."""
        self._below.setdefault(place.log, deque()).append(place)
        if answer is not None or place.log.config.flush_messages == 1:
            self._pending.append(Pending(place, answer))

    def check(self) -> None:
        """Look at everything that has changed."""
        if self._pending:
            self._pending = [each for each in self._pending if not self._is_answered(each)]
        for log in self._below:
            offsets = log.offsets
            offsets.check()
            self._check_recovery_point(log, offsets.recovery_point)

    def _is_answered(self, pending: Pending) -> bool:
        answer = pending.answer
        if answer is not None:
            if not answer.done():
                return False
            if answer.cancelled() or answer.exception() is not None:
                return True
        place = pending.place
        assert self._is_on_disk(place), f"acknowledged, and on no disk: {place}"
        return True

    def _is_on_disk(self, place: Place) -> bool:
        path = self._cache.path_of(place.inode)
        if not path.endswith(".log") or "-delete/" in path:
            return True  # replaced or removed meanwhile
        has_name = self._cache.has_name(path) and self._cache.has_name(path.rpartition("/")[0])
        return has_name and self._cache.is_on_disk(place.inode, place.start, place.end)

    def _check_recovery_point(self, log: Log, recovery_point: int) -> None:
        places = self._below[log]
        while places and places[0].next_offset <= recovery_point:
            place = places.popleft()
            if place.next_offset > log.offsets.log_start:
                assert self._is_on_disk(place), f"below the recovery point, not on disk: {place}"
        if log.directory.endswith("-delete"):
            return
        bases = log.segments.base_offsets
        if self._seen.get(log) == (recovery_point, bases):
            return
        self._seen[log] = recovery_point, bases
        for base, following in pairwise(bases):
            if following <= recovery_point:
                self._check_sealed(f"{log.directory}/{base:020d}.log", recovery_point)

    def _check_sealed(self, path: str, recovery_point: int) -> None:
        assert self._cache.is_whole(path), (
            f"sealed below the recovery point, not on disk: {path.rpartition('/')[2]}, "
            f"recovery point {recovery_point}"
        )

    def check_after_stop(self, data: Path) -> None:
        """A marker says that everything is on disk (FLUSH-6, FLUSH-7)."""
        if not (data / _MARKER).exists():
            return
        for path in data.glob("*-*/*"):
            if path.suffix in _SUFFIXES and not path.parent.name.endswith("-delete"):
                name = path.relative_to(data)
                assert self._cache.is_whole(str(path)), f"marked as clean, not on disk: {name}"
                assert self._cache.has_name(str(path)), f"marked as clean, name not on disk: {name}"


class ScheduledLife:
    """Producers, housekeeping and a stop; the seed of the order chooses what of each.

    Attributes:
        calls: what was done to the disk.
        configs: of the topic ``t``.
    """

    def __init__(self, order: Interleaving, folder: Path, ledger: Ledger | None = None) -> None:
        chance = order.random
        self._order = order
        self._chance = chance
        self._data = folder / "data"
        self._hanging = HangingSync(chance.randrange(8)) if chance.random() < 0.3 else None
        self.calls = OrderedCalls(order, folder, self._hanging)
        self._promises = Promises(self.calls.cache)
        self._clock = FakeClock()
        self._ledger = ledger
        self.configs: dict[str, str] = {}

    async def run(self) -> None:
        """Begin, live, stop."""
        chance = self._chance
        self.parts = await BrokerParts.start(
            self._data.parent,
            {"log.index.size.max.bytes": "4096"},
            log_dir=self._data,
            file_system=OsFileSystem(self.calls),
            clock=self._clock,
        )
        self._cleaning = Cleaning(self.parts)
        configs = {
            "segment.bytes": str(chance.choice([250, 600, 6000])),
            "file.delete.delay.ms": "0",
            "retention.ms": "-1",
            "min.cleanable.dirty.ratio": "0.01",
        }
        if chance.random() < 0.7:
            configs["flush.messages"] = "1"
        if chance.random() < 0.4:
            configs["cleanup.policy"] = "compact"
        else:
            configs["retention.bytes"] = str(chance.choice([-1, 500, 3000]))
        self.configs = configs
        await self.parts.create_topic("t", 1, configs)
        if self._ledger is not None:
            # A sync of each new folder would make a topic of many partitions slow (U16), so its
            # names are synced with its first records. Until then a disk without order may lose the
            # first segment, of which nothing is durable, and keep the next one.
            self.calls.sync_directory(self.parts.log("t", 0).directory)
        if chance.random() < 0.8:
            await self.parts.services.background.checkpoint_recovery_points()
        self._promise(durable=0, log_start=0, exists=True)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, OrderedLoop)
        loop.on_turn = self._promises.check if self._ledger is None else self._sample
        tasks = [self._housekeeper(), self._producer(), self._producer()]
        if chance.random() < 0.5:
            tasks.append(self._transactional_producer())
        if chance.random() < 0.3:
            tasks.append(self._topics())
        await asyncio.wait(
            [asyncio.ensure_future(_forgiving(each)) for each in tasks], timeout=_PATIENCE_SECONDS
        )
        await self._stop()

    def _promise(self, **facts: Any) -> None:
        """Note what a power cut from here on has to leave."""
        if self._ledger is not None:
            self._ledger.promise(len(self.calls.changes), **facts)

    def _sample(self) -> None:
        """Note what a power cut up to here may leave."""
        partition = self.parts.services.partitions.find("t", 0)
        if self._ledger is not None and partition is not None:
            self._ledger.seen(len(self.calls.changes), partition.log.offsets.log_start)

    # ---- producers

    @property
    def _partition(self) -> Partition:
        return self.parts.partition("t", 0)

    async def _append(
        self, batch: Any, written: Written, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> None:
        partition, acks = self._partition, self._chance.choice([1, Acks.ALL])
        info = partition.append(batch, acks, self._clock.time_ms(), origin)
        if self._ledger is not None:
            self._ledger.appended(info.first_offset, written)
        answer = partition.acknowledgement(info, acks)
        self._promises.appended(_place_of(partition.log, info, len(batch)), answer)
        if answer is not None:
            await asyncio.shield(answer)
        if partition.log.config.flush_messages == 1:
            self._promise(durable=info.last_offset + 1)

    async def _producer(self) -> None:
        chance = self._chance
        for number in range(chance.randrange(3, 7)):
            key = b"k%d" % chance.randrange(3)
            room = int(self.configs["segment.bytes"]) - 100
            length = chance.choice([1, 20, room // 4, room])
            value = None if chance.random() < 0.1 else (b"%d-" % number).ljust(length, b".")
            batch = batch_of(value, key=key, timestamp_ms=self._clock.time_ms())
            await self._append(batch, Written(key, value))
            await self._pause()

    async def _transactional_producer(self) -> None:
        sequence = 0
        chance = self._chance
        for _ in range(chance.randrange(1, 4)):
            options = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
            for _ in range(chance.randrange(1, 3)):
                key, value = b"k%d" % chance.randrange(3), b"in %d" % sequence
                batch = batch_of(value, key=key, base_sequence=sequence, **options)
                await self._append(batch, Written(key, value, 7))
                sequence += 1
                await self._pause()
            ending = chance.choice([ControlType.COMMIT, ControlType.ABORT])
            marker = build_marker(
                ending,
                producer_id=7,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=self._clock.time_ms(),
            )
            written = Written(None, None, 7, ending)
            await self._append(memoryview(marker), written, AppendOrigin.COORDINATOR)

    async def _topics(self) -> None:
        self._promise(other=None)
        await self.parts.create_topic("other", 1, {"file.delete.delay.ms": "0"})
        self._promise(other=True)
        await self.parts.produce([("other", 0, batch_of(b"v"))], Acks.ALL)
        self._promise(other=None)
        await self.parts.delete_topic("other")
        self._promise(other=False)

    # ---- housekeeping

    async def _housekeeper(self) -> None:
        actions: list[Callable[[], Coroutine[Any, Any, object]]] = [
            self._flush,
            self._roll,
            self._delete_records,
            self._clean,
            self._remove_files,
            self.parts.services.background.retention,
            self.parts.services.background.checkpoint_recovery_points,
            self.parts.services.background.checkpoint_log_starts,
            self.parts.services.background.checkpoint_high_watermarks,
        ]
        for _ in range(self._chance.randrange(3, 9)):
            await _forgiving(self._chance.choice(actions)())
            await self._pause()

    async def _pause(self) -> None:
        """Let the others do something, or wait for the disk."""
        if self._chance.random() < 0.5:
            await asyncio.sleep(0.001 * self._chance.randrange(3))

    async def _flush(self) -> None:
        log_end = self._partition.log.offsets.log_end
        await asyncio.shield(self._partition.flush())
        self._promise(durable=log_end)

    async def _roll(self) -> None:
        self._partition.roll(self._clock.time_ms())

    async def _delete_records(self) -> None:
        offsets = self._partition.log.offsets
        offset = self._chance.randint(offsets.log_start, offsets.high_watermark)
        self._promise(asked_start=offset)
        result = await self.parts.delete_records("t", 0, offset)
        if not result.error:
            self._promise(log_start=offset)

    async def _clean(self) -> None:
        if self._partition.log.config.compacts:
            asking = self._cleaning.cleaner.clean_now(TopicPartition("t", 0))
            await asyncio.wait([asking], timeout=_PATIENCE_SECONDS)

    async def _remove_files(self) -> None:
        self._clock.advance(1000)
        await self.parts.services.background.delete_files()

    # ---- the end

    async def _stop(self) -> None:
        """As a broker stops: what hangs is given up after a while."""
        await self._cleaning.cleaner.stop(1)
        services = self.parts.services
        services.partitions.close()
        await services.workers.stop(1)
        logs = services.logs
        jobs = logs.closing_jobs(partial(run_parallel, threads=2))
        pool = WorkerPool("close-logs", max(1, len(jobs)), asyncio.get_running_loop())
        closing = [pool.run(job.run) for job in jobs]
        if closing:
            await asyncio.wait(closing, timeout=20)
        self._check_marker()
        if self._hanging is not None:
            self._hanging.is_let_go = True
        await pool.stop(1)
        for each in closing:
            await each
        logs.unlock()
        self._check_marker()

    def _check_marker(self) -> None:
        if self._ledger is None:
            self._promises.check_after_stop(self._data)


def _place_of(log: Log, info: AppendInfo, length: int) -> Place:
    data = log.read(info.first_offset, 1, isolation=FetchIsolation.LOG_END)
    assert data.slice is not None, info
    start = data.slice.position
    inode = os.fstat(data.slice.fileno()).st_ino
    data.slice.release()
    return Place(log, info.last_offset + 1, inode, start, start + length)


async def _forgiving(work: Coroutine[Any, Any, object]) -> None:
    """Failures that a disk causes, and what is refused after them."""
    try:
        await work
    except (StorageError, RequestError, SeglogError, WorkersStoppedError, asyncio.CancelledError):
        return


def run_life(seed: int, folder: Path, ledger: Ledger | None = None) -> "ScheduledLife":
    """One life in the order of a seed; with a ledger it is for what a power cut leaves of it."""
    with Interleaving(seed) as order:
        loop = order.new_loop()
        try:
            life = ScheduledLife(order, folder, ledger)
            loop.run_until_complete(life.run())
        finally:
            _end(loop)
    return life


def run_schedule(seed: int, folder: Path) -> Interleaving:
    """One life in the order of a seed, in a folder of its own, with what must be true meanwhile.

    Raises:
        ScheduleError: something that must be true was not; the trace is part of the text.
    """
    order = Interleaving(seed)
    try:
        with order:
            loop = order.new_loop()
            try:
                loop.run_until_complete(ScheduledLife(order, folder).run())
            finally:
                _end(loop)
    except Exception as error:
        raise ScheduleError(seed, order.trace, error) from error
    return order


def _end(loop: OrderedLoop) -> None:
    """Let a loop go, with what has been left in it by a failure."""
    loop.on_turn = None
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=_PATIENCE_SECONDS))
    loop.close()


class ScheduleError(AssertionError):
    """A schedule in which something went wrong."""

    def __init__(self, seed: int, trace: list[str], error: Exception) -> None:
        lines = "\n  ".join(trace)
        super().__init__(f"schedule {seed}: {type(error).__name__}: {error}\n  {lines}")
        self.seed = seed

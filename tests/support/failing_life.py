"""A broker's life on two data directories of which one fails at a call, and what must hold then."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from seglog.broker.cleaning.log_cleaner import LogCleaner
from seglog.broker.errors import RequestError
from seglog.broker.runtime.traffic import Traffic
from seglog.broker.storage.directories.log_manager import LogManager
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.log.log import Log
from seglog.protocol.api import CreateTopicsRequest, DeleteTopicsRequest, NewTopic
from seglog.protocol.errors import ErrorCode, RecordError
from seglog.protocol.records.control import ControlType, build_marker
from seglog.protocol.types import Acks, TopicPartition
from support.broker_parts import BrokerParts, batch_of
from support.failing_calls import Fault, NthCallFails
from support.fake_clock import FakeClock
from support.ledger import read_committed
from support.log_builder import read_all
from support.managed_logs import run_in_order

_SMALL = {"segment.bytes": "700", "segment.index.bytes": "1200", "file.delete.delay.ms": "0"}
_TOPICS = {
    "t": {**_SMALL, "flush.messages": "1", "retention.ms": "-1", "retention.bytes": "2500"},
    "c": {**_SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
}
_PATIENCE_SECONDS = 20.0
_OURS = (StorageError, RequestError, RecordError)


class PartitionFacts:
    """What was tried and acknowledged of one partition; every value is written once."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, tuple[bytes, bytes]] = {}
        self.tried: set[tuple[bytes, bytes]] = set()
        self.pairs: dict[bytes, bytes] = {}
        self.undecided: list[bytes] = []
        self.aborted: set[bytes] = set()
        self.asked_start = 0
        self.log_start = 0

    def check(self, log: Log, *, is_compacted: bool) -> None:
        """Compare a log with it."""
        offsets = log.offsets
        offsets.check()
        found = {each.offset: (each.key, each.value) for each in read_all(log)}
        assert list(found) == sorted(found), list(found)
        start = offsets.log_start
        assert start >= self.log_start, f"log start {start}, promised {self.log_start}"
        for offset, content in found.items():
            wanted = self.acknowledged.get(offset)
            assert wanted is None or content == wanted, f"{content} at {offset}, not {wanted}"
            assert content in self.tried, f"{content} at {offset} was never written"
        values = {value for _, value in found.values()}
        self._check_nothing_is_missing(found, start, is_compacted=is_compacted)
        if not is_compacted:
            self._check_nothing_is_half(found, values, start)
        log.set_high_watermark(offsets.log_end)
        seen = {value for _, _, value in read_committed(log)} & self.aborted
        assert not seen, f"aborted, and read as committed: {seen}"

    def _check_nothing_is_missing(
        self, found: dict[int, Any], start: int, *, is_compacted: bool
    ) -> None:
        wanted = {each: entry for each, entry in self.acknowledged.items() if each >= start}
        if is_compacted:
            wanted = {
                key: offset
                for offset, (key, value) in sorted(wanted.items())
                if value not in self.aborted
            }
            there = {key: offset for offset, (key, _) in found.items()}
            lost = {key: each for key, each in wanted.items() if there.get(key, -1) < each}
        else:
            lost = {each: entry for each, entry in wanted.items() if each not in found}
        assert not lost, f"acknowledged, and gone: {lost}"

    def _check_nothing_is_half(self, found: dict[int, Any], values: set[Any], start: int) -> None:
        for offset, (_, value) in found.items():
            partner = self.pairs.get(value)
            is_cut_off = offset == start  # delete-records may cut a batch
            assert partner is None or partner in values or is_cut_off, f"half a batch: {value!r}"


class FailingLife:
    """One life in two directories; the calls in the one named ``sick`` fail as a fault says.

    Attributes:
        calls: of the disk.
        strange: exceptions that are not ours, each with the step.
    """

    def __init__(self, folder: Path, fault: Fault | None) -> None:
        self._folder = folder
        self._fault = fault
        self._clock = FakeClock()
        self._facts: dict[TopicPartition, PartitionFacts] = {}
        self._topics: dict[str, bool | None] = {}
        self._sequences: dict[tuple[TopicPartition, int], int] = {}
        self._count = 0
        self._step = ""
        self.calls = NthCallFails(str(folder / "sick"))
        self.strange: list[str] = []

    @property
    def _settings(self) -> dict[str, str]:
        directories = f"{self._folder / 'sick'},{self._folder / 'well'}"
        return {"log.dirs": directories, "background.threads": "2"}

    async def _start(self, file_system: OsFileSystem) -> BrokerParts:
        return await BrokerParts.start(
            self._folder, self._settings, file_system=file_system, clock=self._clock
        )

    async def run(self) -> None:
        """Live; then look at what is left."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: self.strange.append(str(context)))
        self._disk = OsFileSystem(self.calls)
        self.parts = await self._start(self._disk)
        self._cleaner = self._new_cleaner()
        self.calls.arm(self._fault)
        for step in self._steps():
            self._step = step.__name__
            await self._try(step)
            await self.parts.quiet()
        if self._fault is None:
            assert not self.strange, self.strange
        await self._go_on_when_healed()
        await self._stop_and_start()
        await self._check_what_is_left()
        assert not self.strange, self.strange

    async def _try(self, step: Callable[[], Awaitable[object]]) -> None:
        try:
            await step()
        except _OURS as error:
            if self._fault is None:
                self.strange.append(f"{self._step}: {error!r}, without a fault")
        except Exception as error:  # noqa: BLE001  # any other is the fault that is looked for
            self.strange.append(f"{self._step}: {error!r}")

    def _steps(self) -> list[Callable[[], Awaitable[object]]]:
        background = self.parts.services.background
        return [
            self._create,
            self._produce,
            self._abort,
            background.checkpoint_recovery_points,
            self._produce,
            self._roll,
            self._flush,
            background.checkpoint_high_watermarks,
            self._delete_records,
            background.checkpoint_log_starts,
            self._clean,
            self._produce,
            background.retention,
            background.delete_files,
            self._delete_topic,
            self._remove_files,
            background.guard_disks,
        ]

    # ---- steps

    async def _create(self) -> None:
        for name, configs in {**_TOPICS, "gone": _SMALL}.items():
            self._topics[name] = None
            topic = NewTopic(name, 2, 1, dict(configs))
            (result,) = (await self.parts.ask(CreateTopicsRequest([topic]))).topics
            self._see(result.error)
            if result.error == ErrorCode.NONE:
                self._topics[name] = True

    def _see(self, code: int) -> None:
        """Look at the code of an answer: the broker knows what has gone wrong."""
        if code == ErrorCode.UNKNOWN_SERVER_ERROR:
            self.strange.append(f"{self._step}: answered with an unknown error")

    def _partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(name, number)
            for name, is_there in self._topics.items()
            if is_there
            for number in range(2)
        ]

    def _is_well(self, name: TopicPartition) -> bool:
        """Whether a partition lies in the directory that does not fail."""
        return (self._folder / "well" / f"{name.topic}-{name.partition}").is_dir()

    async def _produce(self) -> None:
        for _ in range(3):
            for name in self._partitions():
                for producer_id in (-1, 5):
                    await self._append(name, producer_id)

    async def _append(self, name: TopicPartition, producer_id: int, **options: Any) -> int:
        """Append two records in one batch; the error code of the answer."""
        facts = self._facts.setdefault(name, PartitionFacts())
        self._count += 1
        first, second = b"%d a" % self._count, b"%d b" % self._count
        key = b"k%d" % (self._count % 5)
        stem = {"timestamp_ms": self._clock.time_ms(), "key": key, **options}
        sequence = self._sequences.get((name, producer_id), 0)
        if producer_id >= 0:
            stem |= {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        facts.tried |= {(key, first), (key, second)}
        facts.pairs |= {first: second, second: first}
        if options.get("is_transactional"):
            facts.undecided += [first, second]
        batch = batch_of(first, second, **stem)
        (result,) = await self.parts.produce([(name.topic, name.partition, batch)], Acks.ALL)
        self._see(result.error)
        if result.error == ErrorCode.NONE:
            self._sequences[name, producer_id] = sequence + 2
            base = result.base_offset
            facts.acknowledged |= {base: (key, first), base + 1: (key, second)}
        elif self._is_well(name):
            self.strange.append(f"{self._step}: {name} is harmed: {result}")
        return int(result.error)

    async def _abort(self) -> None:
        for name in self._partitions():
            if await self._append(name, 7, is_transactional=True):
                continue
            marker = build_marker(
                ControlType.ABORT,
                producer_id=7,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=self._clock.time_ms(),
            )
            try:
                self.parts.append_marker(*name, marker)
            except _OURS:
                continue  # the coordinator tries again; until then nobody reads it as committed
            facts = self._facts[name]
            facts.aborted |= set(facts.undecided)

    async def _roll(self) -> None:
        for partition in list(self.parts.services.partitions.all()):
            try:
                partition.roll(self._clock.time_ms())
            except _OURS:
                continue

    async def _flush(self) -> None:
        flushes = [each.flush() for each in list(self.parts.services.partitions.all())]
        for outcome in await asyncio.gather(*flushes, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, _OURS):
                self.strange.append(f"{self._step}: {outcome!r}")

    async def _delete_records(self) -> None:
        for name in self._partitions():
            if name.topic == "t":
                result = await self.parts.delete_records(*name, 5)
                self._see(result.error)
                if not result.error:
                    self._facts[name].log_start = 5

    async def _clean(self) -> None:
        for name in self._partitions():
            if name.topic == "c" and self.parts.services.partitions.find(*name) is not None:
                asking = self._cleaner.clean_now(name)
                await asyncio.wait([asking], timeout=_PATIENCE_SECONDS)
                error = asking.exception() if asking.done() else TimeoutError("it hangs")
                if error is not None and not isinstance(error, _OURS):
                    self.strange.append(f"{self._step}: {error!r}")

    async def _delete_topic(self) -> None:
        if self._topics["gone"]:
            self._topics["gone"] = None
            (result,) = (await self.parts.ask(DeleteTopicsRequest(["gone"]))).topics
            self._see(result.error)
            if result.error == ErrorCode.NONE:
                self._topics["gone"] = False

    async def _remove_files(self) -> None:
        self._clock.advance(1000)
        await self.parts.services.background.delete_files()

    def _new_cleaner(self) -> LogCleaner:
        services = self.parts.services
        return LogCleaner(
            services.config,
            services.logs,
            self._disk,
            services.clock,
            run_in_directory=lambda _path, job: services.workers.background.run(job),
            roll_if_overdue=services.background.roll_if_overdue,
            begin_retention=services.background.begin_retention,
            traffic=Traffic(),
        )

    # ---- when the fault is gone

    async def _go_on_when_healed(self) -> None:
        """Everything goes on, unless a sync has failed or the disk said that it is broken."""
        self._step = "healed"
        failed = list(self.calls.failed)
        in_life = len(self.calls.operations)
        (sick, _) = self.parts.services.logs.log_dirs
        is_lost = not sick.is_writable_now
        # A file that is made anew goes when its sync fails; the old one stays, and is whole.
        syncs = [
            path for operation, path in failed if operation == "sync" and not path.endswith(".tmp")
        ]
        assert not syncs or is_lost, f"the sync of {syncs[0]} failed, {sick} is written to"
        # An exchange of segments that ends half way takes the directory offline in any case.
        may_be_lost = any(
            operation in ("sync", "sync_directory") or path.endswith(".swap")
            for operation, path in failed
        )
        if failed and not may_be_lost and self._passes:
            assert not is_lost, f"{failed[0]} passes, and {sick.path} is lost"
        if is_lost or (failed and not self._passes):
            return
        self.calls.heal()
        for _ in range(3):
            self._clock.advance(61_000)
            await self.parts.services.background.guard_disks()
            await self.parts.quiet()
        for name in self._partitions():
            error = await self._append(name, -1)
            assert not error, f"{name} does not go on after {failed[:3]}: {ErrorCode(error).name}"
        self.calls.arm(self._fault)
        assert in_life <= len(self.calls.operations)

    @property
    def _passes(self) -> bool:
        """Whether the fault says nothing of the disk that is worth a directory."""
        return self._fault is not None and str(self._fault).endswith(
            ("ENOSPC", "EMFILE", "short write")
        )

    async def _stop_and_start(self) -> None:
        """Stop in good order and start, on the disk as it is."""
        self._step = "stop"
        await self._cleaner.stop(1)
        await self._try(self.parts.stop)
        self._step = "start"
        manager = LogManager(self.parts.services.config, self._disk)
        is_loaded = False
        try:
            manager.open()
            manager.load(run_in_order, self._clock.time_ms())
            is_loaded = True
        except StorageError:
            pass  # there is no start on a disk that is broken
        except Exception as error:  # noqa: BLE001  # the fault that is looked for
            self.strange.append(f"start: {error!r}")
        manager.close(run_in_order, clean=is_loaded)

    async def _check_what_is_left(self) -> None:
        self.calls.heal()
        for clean in (False, True):
            self.parts = await self._start(OsFileSystem())
            self._step = f"after the fault, stopped {'cleanly' if clean else 'as by a kill'}"
            logs = self.parts.services.logs
            assert not logs.offline_partitions, logs.offline_partitions
            assert all(each.is_writable_now for each in logs.log_dirs), logs.log_dirs
            there = {topic.name for topic in self.parts.services.catalog.topics()}
            for topic, is_there in self._topics.items():
                assert is_there is None or (topic in there) == is_there, (topic, is_there)
            for name in self._partitions():
                log = self.parts.log(*name)
                is_compacted = log.config.compacts
                self._facts.setdefault(name, PartitionFacts()).check(log, is_compacted=is_compacted)
                assert not await self._append(name, -1)
            await self.parts.quiet()
            await self.parts.stop(clean=clean)

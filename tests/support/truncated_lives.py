"""A log that somebody else truncates, as a follower's is, and what power cuts leave of it."""

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.file_system import OsFileSystem
from seglog.broker.storage.log.log import Log
from support.disk_model import Cut, DiskModel
from support.log_builder import NOW_MS, append, flush_log, read_all
from support.managed_logs import ManagedLogs
from support.page_cache import OrderedCalls
from support.power_cuts import CUTS, PowerCutError, content_of

_STEPS = 25


@dataclass(eq=False)
class Entry:
    """One record, and the one that was before it in the log when it was written."""

    offset: int
    value: bytes
    before: "Entry | None"


class TruncatedLife:
    """Appends, rolls, flushes, checkpoints and truncations, by a seed.

    Args:
        seed: of the life and of the cuts.
        folder: of its own.
        in_any_order: names reach the disk in any order, and not as in a journal.
    """

    def __init__(self, seed: int, folder: Path, *, in_any_order: bool) -> None:
        self._seed = seed
        self._folder = folder
        self._in_any_order = in_any_order
        self._chance = random.Random(seed)
        self._entries: dict[bytes, Entry] = {}
        self._last: Entry | None = None
        # Since which change which entry is on disk with all before it, and with which log start.
        self._durable: list[tuple[int, Entry | None]] = [(0, None)]
        root = folder / "disk"
        (root / "data").mkdir(parents=True)
        self._initial = content_of(root)
        self._calls = OrderedCalls(None, root)
        logs = ManagedLogs(root / "data", file_system=OsFileSystem(self._calls))
        configs = {"segment.bytes": "900", "file.delete.delay.ms": "0"}
        [log] = logs.create_topic("t", 1, configs)
        # A sync of each new folder would make a topic of many partitions slow (U16), so its names
        # are synced with its first records. Until then a disk without order may lose the first
        # segment, of which nothing is durable, and keep the next one.
        self._calls.sync_directory(log.directory)
        logs.checkpoint()  # without a recovery point holes are kept
        self._made = len(self._calls.changes)
        for _ in range(_STEPS):
            self._step(logs, log)
        logs.kill()

    def _step(self, logs: ManagedLogs, log: Log) -> None:
        chance = self._chance
        step = chance.choice(["append"] * 6 + ["flush", "flush", "roll", "checkpoint", "truncate"])
        if step == "append":
            value = b"%d" % len(self._entries)
            entry = Entry(log.offsets.log_end, value, self._last)
            self._entries[value] = self._last = entry
            append(log, [value.ljust(chance.choice([1, 60, 600]), b".")])
            self._entries[value] = entry
        elif step == "flush":
            flush_log(log)
            self._durable.append((len(self._calls.changes), self._last))
        elif step == "roll":
            log.roll(NOW_MS)
        elif step == "checkpoint":
            logs.checkpoint()
        else:
            self._truncate(logs, log)

    def _truncate(self, logs: ManagedLogs, log: Log) -> None:
        offset = self._chance.randint(0, log.offsets.log_end)
        while self._last is not None and self._last.offset >= offset:
            self._last = self._last.before
        kept = self._durable[-1][1]
        while kept is not None and kept.offset >= offset:
            kept = kept.before
        self._durable.append((len(self._calls.changes), kept))
        truncation = log.begin_truncation(offset, NOW_MS)
        logs.checkpoint()
        truncation.run()
        log.finish_truncation(truncation)

    def check(self) -> None:
        """Cut the power here and there, and see what is left.

        Raises:
            PowerCutError: it is not what was promised.
        """
        count = len(self._calls.changes)
        model, applied = DiskModel(self._initial), 0
        for number in sorted(self._chance.randint(self._made, count) for _ in range(CUTS)):
            for change in self._calls.changes[applied:number]:
                model.apply(change)
            applied = number
            self._check_cut(model, number)

    def _check_cut(self, model: DiskModel, number: int) -> None:
        after, again = self._folder / "after", self._folder / "again"
        sector_bytes = self._chance.choice([512, 4096])
        cut = Cut(self._chance, sector_bytes, names_in_order=not self._in_any_order)
        model.write_to(after, cut)
        initial = content_of(after)
        try:
            calls = self._recover(after, number)
            recovery = DiskModel(initial)
            for change in calls.changes[: self._chance.randint(0, len(calls.changes))]:
                recovery.apply(change)
            recovery.write_to(again, cut)
            self._recover(again, number)
        except (AssertionError, StorageError) as error:
            raise PowerCutError(
                f"truncated life {self._seed}, cut after {number} changes, "
                f"{sector_bytes}-byte sectors: {type(error).__name__}: {error}"
            ) from error
        finally:
            shutil.rmtree(after, ignore_errors=True)
            shutil.rmtree(again, ignore_errors=True)

    def _recover(self, root: Path, number: int) -> OrderedCalls:
        calls = OrderedCalls(None, root)
        logs = ManagedLogs(root / "data", file_system=OsFileSystem(calls))
        try:
            assert not logs.manager.offline_partitions, logs.manager.offline_partitions
            self._check_log(logs.log("t"), number)
        finally:
            logs.kill()
        return calls

    def _check_log(self, log: Log, number: int) -> None:
        """The log is a beginning of what it was at some time."""
        durable = [entry for change, entry in self._durable if change <= number][-1]
        assert log.offsets.log_start == 0, log
        found = read_all(log)
        assert [each.offset for each in found] == list(range(log.offsets.log_end)), (
            f"{[each.offset for each in found]} of {log!r}"
        )
        before: Entry | None = None
        chain = {before}
        for record in found:
            assert record.value is not None
            entry = self._entries[record.value.rstrip(b".")]
            assert (entry.offset, entry.before) == (record.offset, before), (
                f"offset {record.offset} of another time than what is before it, {log!r}"
            )
            before = entry
            chain.add(entry)
        assert durable in chain, f"{durable and durable.offset} was flushed, {log!r}"

"""A whole data directory after a power cut at every change of its life (INV-3)."""

import random
import shutil
from pathlib import Path

import pytest

from seglog.broker.storage.cleaner.candidates import look_at, make_plan
from seglog.broker.storage.cleaner.cleaner import Cleaner
from seglog.broker.storage.cleaner.plan import SegmentSwap
from seglog.broker.storage.files.layout import CLEANED_SUFFIX
from seglog.broker.storage.log.log import Log
from seglog.broker.storage.segment.segment import LogSegment
from support.exchanges import replace_segments
from support.log_builder import NOW_MS, append, append_many, flush_log, offsets_of, read_all
from support.managed_logs import ManagedLogs
from support.recording_file_system import Keep, RecordingFileSystem

SMALL = {"segment.bytes": "400", "file.delete.delay.ms": "0"}


class Promise:
    """What must be there if the power fails after so many changes."""

    def __init__(self, disk: RecordingFileSystem) -> None:
        self._disk = disk
        self._made: list[tuple[int, dict[str, object]]] = [(0, {})]

    def change(self, **facts: object) -> None:
        """From here on these hold; a fact of None holds no more."""
        self._made.append((len(self._disk.changes), {**self._made[-1][1], **facts}))

    def at(self, change: int) -> dict[str, object]:
        """What holds after so many changes."""
        return [facts for number, facts in self._made if number <= change][-1]


def live(disk: RecordingFileSystem, root: Path) -> Promise:
    """Everything that writes: topics, appends, rolls, flushes, cuts, retention, deletion, stop."""
    promise = Promise(disk)
    broker = ManagedLogs(root, file_system=disk)
    log, other = broker.create_topic("kept", 2, {**SMALL, "retention.bytes": "900"})
    promise.change(kept=0, start=0)
    append_many(log, 12, value_bytes=40)
    append_many(other, 3, value_bytes=40)
    flush_log(log)
    promise.change(kept=12)
    broker.checkpoint()
    broker.create_topic("doomed", 1, SMALL)
    promise.change(doomed=True)
    append_many(log, 8, value_bytes=40)
    flush_log(log)
    promise.change(kept=20)
    log.delete_records_before(5)
    broker.checkpoint()
    promise.change(start=5)
    broker.run_retention()
    broker.remove_files(NOW_MS)
    append_many(log, 6, value_bytes=40)
    flush_log(log)
    promise.change(kept=26)
    promise.change(doomed=None)
    broker.delete_topic("doomed")
    promise.change(doomed=False)
    broker.remove_files(NOW_MS)
    broker.checkpoint()
    broker.catalog.alter_topic("kept", {**SMALL, "retention.bytes": "100000"})
    promise.change(configured=True)
    append_many(log, 3, value_bytes=40)
    broker.stop()
    promise.change(kept=29, other=3)
    return promise


@pytest.mark.slow
@pytest.mark.parametrize("keep", [Keep.EVERYTHING, Keep.NOTHING, 1, 2], ids=str)
def test_power_cut_in_the_life_of_a_directory_loses_what_was_promised(
    tmp_path: Path, keep: Keep | int
) -> None:
    """INV-3: topics, settings, start offsets and flushed records, at every change."""
    root = tmp_path / "disk"
    root.mkdir()
    disk = RecordingFileSystem(root)
    promise = live(disk, root)
    for change in range(len(disk.changes) + 1):
        facts = promise.at(change)
        seed = keep if isinstance(keep, Keep) else keep * 1000 + change
        target = disk.after_power_cut(tmp_path / "after", changes=change, keep=seed)
        again = ManagedLogs(target)
        check(again, facts)
        again.kill()
        # And once more, after the recovery was killed in its turn.
        again = ManagedLogs(target)
        check(again, facts)
        again.remove_files(NOW_MS)
        again.stop()
        assert not list(target.rglob("*.deleted"))
        assert not list(target.glob("*-delete"))
        shutil.rmtree(target)


def check(again: ManagedLogs, facts: dict[str, object]) -> None:
    topics = {topic.name for topic in again.catalog.topics()}
    assert not again.manager.offline_partitions
    if facts.get("doomed") is not None:
        assert ("doomed" in topics) == facts["doomed"]
    if "kept" not in facts:
        return
    log = again.log("kept")
    durable, start = int(str(facts["kept"])), int(str(facts["start"]))
    offsets = offsets_of(read_all(log))
    assert log.offsets.log_start >= start
    assert [each for each in offsets if each < durable] == list(
        range(log.offsets.log_start, durable)
    )
    assert offsets == sorted(set(offsets))
    assert log.offsets.log_end >= max([durable, *(each + 1 for each in offsets)])
    if "other" in facts:
        assert offsets_of(read_all(again.log("kept", 1))) == [0, 1, 2]
    topic = again.catalog.get("kept")
    assert topic is not None
    assert topic.configs["segment.bytes"] == "400"
    if facts.get("configured"):
        assert topic.configs["retention.bytes"] == "100000"


# ---- compaction by the real cleaner


def newest(log: Log) -> dict[bytes | None, bytes | None]:
    """What a reader knows in the end: the last value of each key, markers as if it were gone."""
    found = {record.key: record.value for record in read_all(log)}
    return {key: value for key, value in found.items() if value is not None}


def write_keyed(log: Log, generator: random.Random, count: int) -> None:
    for _ in range(count):
        keys = [b"k%d" % generator.randrange(12) for _ in range(generator.randrange(1, 4))]
        offset = log.offsets.log_end
        values = [None if generator.random() < 0.3 else b"%d" % offset for _ in keys]
        append(log, values, keys=list(keys))


def run_pass(
    log: Log, disk: RecordingFileSystem, checkpoint: int, now_ms: int
) -> tuple[int, list[SegmentSwap]]:
    """One pass as the broker makes it; returns the new checkpoint and the swaps."""
    swaps = []

    def swap_in(swap: SegmentSwap) -> None:
        new = [
            LogSegment.open(disk, log.directory, base, log.config, now_ms, suffix=CLEANED_SUFFIX)
            for base in swap.new_base_offsets
        ]
        old = [log.segments.get(base) for base in swap.old_base_offsets]
        removed = replace_segments(log, new, [each for each in old if each is not None])
        disk.sync_directory(log.directory)
        for segment in removed:
            segment.delete_files()
        swaps.append(swap)

    cleaner = Cleaner(disk, map_bytes=24 * 1000, map_load_factor=0.9, buffer_bytes=1024)
    plan = make_plan(log, look_at(log, checkpoint, now_ms), now_ms)
    result = cleaner.clean(plan, account=lambda _: None, hand_over=swap_in)
    return result.end_offset, swaps


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_power_cut_in_a_compaction_mixes_old_and_new(tmp_path: Path, seed: int) -> None:
    """REC-20: each group of segments is all old or all new, and no value changes or comes back."""
    root = tmp_path / "disk"
    root.mkdir()
    disk = RecordingFileSystem(root)
    broker = ManagedLogs(root, file_system=disk)
    configs = {**SMALL, "cleanup.policy": "compact", "delete.retention.ms": "0"}
    (log,) = broker.create_topic("t", 1, configs)
    generator = random.Random(seed)
    checkpoint = 0
    for number in range(2):
        write_keyed(log, generator, 25)
        log.roll(NOW_MS)
        flush_log(log)
        broker.checkpoint()
        expected, before = newest(log), offsets_of(read_all(log))
        start = len(disk.changes)
        checkpoint, swaps = run_pass(log, disk, checkpoint, NOW_MS + 1000 * number)
        after = offsets_of(read_all(log))
        assert newest(log) == expected
        for change in range(start, len(disk.changes) + 1):
            for keep in (Keep.EVERYTHING, Keep.NOTHING, change):
                target = disk.after_power_cut(tmp_path / "after", changes=change, keep=keep)
                again = ManagedLogs(target)
                check_groups(again.log("t"), swaps, before, after, expected)
                again.stop()
                left = {path.suffix for path in (target / "t-0").iterdir()}
                assert not left & {".swap", ".cleaned", ".deleted"}
                shutil.rmtree(target)
    broker.stop()


def check_groups(
    log: Log,
    swaps: list[SegmentSwap],
    before: list[int],
    after: list[int],
    expected: dict[bytes | None, bytes | None],
) -> None:
    assert newest(log) == expected
    found = offsets_of(read_all(log))
    assert found == sorted(set(found))
    starts = [swap.old_base_offsets[0] for swap in swaps]
    for first, end in zip(starts, [*starts[1:], log.offsets.log_end], strict=True):

        def within(offsets: list[int], first: int = first, end: int = end) -> list[int]:
            return [offset for offset in offsets if first <= offset < end]

        assert within(found) in (within(before), within(after))

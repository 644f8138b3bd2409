"""What was written to one log, what of it was promised, and whether a log that is left keeps it."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from seglog.broker.storage.log.log import FetchIsolation, Log
from seglog.protocol.records.batch import iter_batches
from seglog.protocol.records.control import ControlType
from seglog.protocol.types import INT32_MAX
from support.log_builder import read_all


@dataclass(frozen=True)
class Written:
    """One record, alone in its batch; a marker has an ending."""

    key: bytes | None
    value: bytes | None
    producer_id: int = -1
    ending: ControlType | None = None


class Ledger:
    """The records of one log by offset, and what is promised since which change of the disk."""

    def __init__(self) -> None:
        self._records: list[Written] = []
        self._promises: list[tuple[int, dict[str, Any]]] = [(0, {})]
        self._starts: list[tuple[int, int]] = []

    def appended(self, offset: int, written: Written) -> None:
        """A record was appended."""
        assert offset == len(self._records), (offset, len(self._records))
        self._records.append(written)

    def promise(self, change: int, **facts: Any) -> None:
        """From this change on a cut leaves these; its offsets only rise."""
        before = self._promises[-1][1]
        for name in ("durable", "log_start", "asked_start"):
            if name in facts:
                facts[name] = max(facts[name], before.get(name, 0))
        self._promises.append((change, {**before, **facts}))

    def seen(self, change: int, log_start: int) -> None:
        """Up to this change the log start was no higher."""
        if not self._starts or self._starts[-1][1] != log_start:
            self._starts.append((change, log_start))
        else:
            self._starts[-1] = change, log_start

    def promised(self, change: int) -> dict[str, Any]:
        """What is promised at a change."""
        return [facts for number, facts in self._promises if number <= change][-1]

    def highest_start(self, change: int) -> int:
        """The highest log start that a cut at a change may leave."""
        starts = self._starts
        index = bisect_right(starts, change, key=lambda each: each[0])
        return starts[min(index, len(starts) - 1)][1] if starts else 0

    # ---- what a log should hold

    def last_stable(self, log_start: int, log_end: int) -> int:
        """Where undecided transactions begin; not below the log start (TXN-10)."""
        undecided: dict[int, int] = {}
        for offset, record in enumerate(self._records[:log_end]):
            if record.ending is not None:
                undecided.pop(record.producer_id, None)
            elif record.producer_id >= 0:
                undecided.setdefault(record.producer_id, offset)
        return max(log_start, min([log_end, *undecided.values()]))

    def committed(self, log_start: int, log_end: int) -> list[tuple[int, Written]]:
        """What a reader of committed records gets of a log with these ends, without compaction."""
        found: dict[int, Written] = {}
        undecided: dict[int, list[int]] = {}
        for offset, record in enumerate(self._records[:log_end]):
            if record.ending is ControlType.ABORT:
                for each in undecided.pop(record.producer_id, []):
                    del found[each]
            elif record.ending is not None:
                undecided.pop(record.producer_id, None)
            else:
                found[offset] = record
                if record.producer_id >= 0:
                    undecided.setdefault(record.producer_id, []).append(offset)
        end = self.last_stable(log_start, log_end)
        return [(each, found[each]) for each in sorted(found) if log_start <= each < end]

    def aborted(self, end: int) -> set[int]:
        """Offsets of records whose transaction was aborted by a marker below ``end``."""
        found: set[int] = set()
        undecided: dict[int, set[int]] = {}
        for offset, record in enumerate(self._records[:end]):
            if record.producer_id < 0:
                continue
            if record.ending is None:
                undecided.setdefault(record.producer_id, set()).add(offset)
                continue
            decided = undecided.pop(record.producer_id, set())
            if record.ending is ControlType.ABORT:
                found |= decided
        return found

    def check(self, log: Log, change: int, *, is_compacted: bool, may_have_holes: bool) -> None:
        """Compare a log with what it may hold after a cut at a change.

        Args:
            change: the number of the last one before the cut.
            is_compacted: the older values of keys may be gone.
            may_have_holes: records that were not durable may be gone although later ones are there:
                where cleanings leave gaps, or nobody knows a recovery point, recovery cannot tell.
        """
        offsets, facts = log.offsets, self.promised(change)
        log.set_high_watermark(offsets.log_end)
        start, end, durable = offsets.log_start, offsets.log_end, facts["durable"]
        assert end >= durable, f"log end {end}, durable up to {durable}"
        assert end <= len(self._records), f"log end {end}, written up to {len(self._records)}"
        low = facts["log_start"]
        high = max(self.highest_start(change), facts.get("asked_start", 0))
        assert low <= start <= high, f"log start {start}, promised {low}, reached {high}"
        if not may_have_holes:
            last_stable = self.last_stable(start, end)
            assert offsets.last_stable == last_stable, f"{offsets}, not {last_stable}"
        sure = durable if may_have_holes else end
        self._check_uncommitted(log, sure, is_compacted=is_compacted)
        self._check_committed(log, sure, is_compacted=is_compacted)

    def _check_uncommitted(self, log: Log, sure: int, *, is_compacted: bool) -> None:
        found = {each.offset: (each.key, each.value) for each in read_all(log)}
        assert list(found) == sorted(found), list(found)
        start, end = log.offsets.log_start, log.offsets.log_end
        for offset, content in found.items():
            record = self._records[offset]
            assert content == (record.key, record.value), f"other content at {offset} of {log!r}"
        missing = [
            offset
            for offset, record in enumerate(self._records[:end])
            if start <= offset < sure and record.ending is None and offset not in found
        ]
        assert is_compacted or not missing, f"missing {missing} of {log!r}"

    def _check_committed(self, log: Log, sure: int, *, is_compacted: bool) -> None:
        found = {offset: (key, value) for offset, key, value in read_committed(log)}
        aborted = self.aborted(sure) & found.keys()
        assert not aborted, f"aborted records {sorted(aborted)} of {log!r}"
        wanted = self.committed(log.offsets.log_start, sure)
        if not is_compacted:
            missing = [offset for offset, _ in wanted if offset not in found]
            assert not missing, f"missing {missing} of the committed ones of {log!r}"
            return
        newest = {record.key: offset for offset, record in wanted}
        there = {key: offset for offset, (key, _) in found.items()}
        for key, offset in newest.items():
            # Below it are older values only, which nobody may take for the newest.
            assert there.get(key, -1) >= offset, f"{key!r} of offset {offset} is gone, {log!r}"


def read_committed(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of the records that a reader of committed ones gets, from the start."""
    found: list[tuple[int, bytes | None, bytes | None]] = []
    skipped: set[int] = set()
    position = log.offsets.log_start
    while True:
        data = log.read(position, INT32_MAX, isolation=FetchIsolation.TXN_COMMITTED)
        content = b""
        if data.slice is not None:
            content = data.slice.read()
            data.slice.release()
        aborted = sorted((first, producer) for producer, first in data.aborted_transactions or ())
        before = position
        for batch in iter_batches(content):
            header = batch.header
            while aborted and aborted[0][0] <= header.last_offset:
                skipped.add(aborted.pop(0)[1])
            if header.is_control:
                skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                found += [
                    (each.offset, each.key, each.value)
                    for each in batch.records(from_offset=position)
                ]
            position = max(position, header.next_offset)
        if position == before:
            return found

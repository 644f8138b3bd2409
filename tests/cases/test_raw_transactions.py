"""Field case C021 with files that were written byte by byte, as another broker left them."""

import itertools
import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from seglog.clients import Admin, Consumer
from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol.compression import Codec
from seglog.protocol.records import build_batch
from seglog.protocol.records.batch import read_header
from seglog.protocol.records.control import ControlType, build_marker
from seglog.protocol.types import IsolationLevel
from support.real_broker import SHORT_PERIODS, base_offsets, describe
from support.stopped_logs import empty_folder, segment_file, stored_batches
from support.wires import open_wire

LATEST = -1
SEGMENT_BYTES = 4096
BY_HAND = {**SHORT_PERIODS, "log.cleaner.backoff.ms": 3_600_000}
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": SEGMENT_BYTES,
    "delete.retention.ms": 0,
    "min.cleanable.dirty.ratio": 0.001,
    "file.delete.delay.ms": 0,
}


class RawLog:
    """Batches with their offsets, to be cut into segments; ``commits`` says how each ends."""

    def __init__(self, seed: int, codec: Codec) -> None:
        self.batches: list[bytes] = []
        self.committed: list[tuple[bytes, bytes]] = []
        self._random = random.Random(seed)
        self._codec = codec
        self._offset = 0
        self._sequences: dict[int, int] = {1: 0, 2: 0, 3: 0}
        self._now_ms = time.time_ns() // 1_000_000
        self._counter = itertools.count()

    @property
    def end_offset(self) -> int:
        return self._offset

    def add_transactions(self, commits: Sequence[bool]) -> None:
        """Transactions of 20 records, in turn of three producers, two of them side by side."""
        for first in range(0, len(commits), 2):
            numbers = range(first, min(first + 2, len(commits)))
            for number in self._random.sample([*numbers] * 10, 10 * len(numbers)):
                self.add_records(number % 3 + 1, self._records(2, committed=commits[number]))
            for number in numbers:
                self.add_marker(number % 3 + 1, committed=commits[number])

    def _records(self, count: int, *, committed: bool) -> list[tuple[bytes, bytes]]:
        word = b"commit" if committed else b"abort"
        pairs = [
            (b"k%d" % self._random.randrange(10), (b"%s-%d" % (word, next(self._counter))))
            for _ in range(count)
        ]
        pairs = [(key, value.ljust(200, b".")) for key, value in pairs]
        if committed:
            self.committed += pairs
        return pairs

    def add_records(self, producer_id: int, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        batch = build_batch(
            [(self._now_ms, *pair, ()) for pair in pairs],
            codec=self._codec,
            base_offset=self._offset,
            leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=self._sequences[producer_id],
            is_transactional=True,
        )
        self._sequences[producer_id] += len(pairs)
        self._offset += len(pairs)
        self.batches.append(bytes(batch))

    def add_marker(self, producer_id: int, *, committed: bool) -> None:
        marker = build_marker(
            ControlType.COMMIT if committed else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=self._now_ms,
            base_offset=self._offset,
            leader_epoch=0,
        )
        self._offset += 1
        self.batches.append(bytes(marker))

    def write(self, folder: Path) -> int:
        """Write data files of at most ``segment.bytes`` each; how many."""
        empty_folder(folder)
        content: dict[int, bytes] = {}
        base_offset = -1
        for batch in self.batches:
            if base_offset < 0 or len(content[base_offset]) + len(batch) > SEGMENT_BYTES:
                base_offset = read_header(batch).base_offset
                content[base_offset] = b""
            content[base_offset] += batch
        for offset, part in content.items():
            segment_file(folder, offset, ".log").write_bytes(part)
        return len(content)


def committed_view(broker: RunningBroker) -> list[tuple[bytes | None, bytes | None]]:
    with Consumer(
        broker.address, "tx", start="earliest", stop_at_end=True, isolation="read_committed"
    ) as consumer:
        return [(record.key, record.value) for record in consumer]


@pytest.mark.slow
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_raw_transactions_look_the_same_after_recovery_and_compaction(
    tmp_path: Path, codec: Codec
) -> None:
    """C021: aborted data is hidden from the start on, markers follow it, nothing stays open."""
    raw = RawLog(21, codec)
    raw.add_transactions([number % 3 != 1 for number in range(15)])
    raw.add_marker(1, committed=False)  # of a transaction without records
    with running_broker(configs=BY_HAND, folder=tmp_path) as broker:
        with Admin(broker.address) as admin:
            admin.create_topic("tx", partitions=1, configs=CONFIGS)
        broker.kill()
        segments = raw.write(broker.data_directory / "tx-0")
        assert segments > 3
        (broker.data_directory / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
        broker.start()
        with Admin(broker.address) as admin:
            assert len(base_offsets(admin, "tx")) == segments
        assert committed_view(broker) == raw.committed
        for stop in (broker.stop, broker.kill, broker.stop):
            with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
                admin.roll("tx")
                (result,) = admin.clean("tx", wait=True)
                assert result.state == "done"
                state = describe(admin, "tx")
                assert state.uncleanable_reason is None
                assert state.last_stable_offset == state.log_end_offset == raw.end_offset
                committed = IsolationLevel.READ_COMMITTED
                assert wire.find("tx", LATEST, isolation=committed).offset == raw.end_offset
            after = committed_view(broker)
            assert dict(after) == dict(raw.committed)
            assert len(after) == len(dict(after))
            stop()
            broker.start()
        assert committed_view(broker) == after
    values = {
        record.value
        for batch in stored_batches(broker.data_directory / "tx-0")
        if not batch.header.is_control
        for record in batch.records()
    }
    assert values == {value for _, value in after}


@pytest.mark.slow
def test_an_undecided_raw_transaction_holds_compaction_back(tmp_path: Path) -> None:
    """C021, CLN-3: nothing at or above the last stable offset is compacted, or shown."""
    raw = RawLog(22, Codec.NONE)
    raw.add_transactions([True, False, True])
    stable = raw.end_offset
    raw.add_records(2, [(b"k%d" % number, b"undecided") for number in range(10)])
    raw.add_transactions([True])
    with running_broker(configs=BY_HAND, folder=tmp_path) as broker:
        with Admin(broker.address) as admin:
            admin.create_topic("tx", partitions=1, configs=CONFIGS)
        broker.kill()
        raw.write(broker.data_directory / "tx-0")
        (broker.data_directory / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
        broker.start()
        before = committed_view(broker)
        assert before == raw.committed[:40]
        for _ in range(2):
            with Admin(broker.address) as admin:
                admin.roll("tx")
                admin.clean("tx", wait=True)
                state = describe(admin, "tx")
                assert state.last_stable_offset == stable
                assert state.first_dirty_offset is not None
                assert state.first_dirty_offset <= stable
            assert dict(committed_view(broker)) == dict(before)
            broker.kill()
            broker.start()
    kept = stored_batches(broker.data_directory / "tx-0")
    above = [batch for batch in kept if batch.header.base_offset >= stable]
    assert sum(batch.header.record_count for batch in above) == raw.end_offset - stable

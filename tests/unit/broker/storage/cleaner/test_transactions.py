"""Transactions across passes: what was aborted, committed or cleaned before stays so."""

from dataclasses import replace
from pathlib import Path

import pytest

from seglog.broker.storage.cleaner.transaction_walk import TransactionWalk
from seglog.broker.storage.segment.transaction_index import AbortedTransaction
from seglog.protocol.records.batch import RecordBatch
from seglog.protocol.records.builder import build_batch
from seglog.protocol.records.control import ControlType, build_marker
from support.log_builder import KEEP, NOW_MS, append, end_transaction, read_all
from support.log_cleaning import CompactedLog, read_committed, stored_batches

CONFIG = replace(KEEP, cleanup_policy=frozenset({"compact"}), delete_retention_ms=1000)
PRODUCER = 7
LATER_MS = NOW_MS + 5000


@pytest.fixture
def compacted(tmp_path: Path) -> CompactedLog:
    return CompactedLog(tmp_path / "log", CONFIG)


class Producer:
    """Transactions of one producer, in sequence."""

    def __init__(self, compacted: CompactedLog, producer_id: int = PRODUCER) -> None:
        self.compacted = compacted
        self.producer_id = producer_id
        self.epoch = 0
        self.sequence = 0

    def send(self, key: bytes, value: bytes | None) -> None:
        append(
            self.compacted.log,
            [value],
            keys=[key],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            sequence=self.sequence,
            transactional=True,
        )
        self.sequence += 1

    def end(self, *, commit: bool) -> None:
        end_transaction(
            self.compacted.log, self.producer_id, commit=commit, producer_epoch=self.epoch
        )

    def transaction(self, key: bytes, value: bytes | None, *, commit: bool) -> None:
        self.send(key, value)
        self.end(commit=commit)

    def bump_epoch(self) -> None:
        self.epoch += 1
        self.sequence = 0


def put(compacted: CompactedLog, key: bytes, value: bytes | None) -> None:
    append(compacted.log, [value], keys=[key])


def table(compacted: CompactedLog) -> dict[bytes | None, bytes | None]:
    """What somebody who reads everything committed ends up with."""
    return {record.key: record.value for record in read_committed(compacted.log)}


@pytest.mark.parametrize("aborts", [1, 3])
@pytest.mark.parametrize("has_new_epoch", [False, True])
def test_a_committed_delete_holds_after_an_abort_that_is_clean_already(
    compacted: CompactedLog, aborts: int, has_new_epoch: bool
) -> None:
    """KEEP-3, KEEP-11, CMAP-7: the abort's marker lies in front of what the next pass maps."""
    producer = Producer(compacted)
    put(compacted, b"user1", b"secret")
    for _ in range(aborts):
        producer.transaction(b"other", b"x", commit=False)
    compacted.clean()
    if has_new_epoch:
        producer.bump_epoch()
    producer.transaction(b"user1", None, commit=True)
    compacted.clean(NOW_MS + 10)
    put(compacted, b"z", b"1")
    for step in range(3):
        compacted.clean(LATER_MS + 2000 * step)
        put(compacted, b"z", b"1")
    assert b"user1" not in table(compacted)
    assert all(record.key != b"user1" for record in read_all(compacted.log))


def test_each_transaction_of_a_producer_is_judged_by_itself(compacted: CompactedLog) -> None:
    """CMAP-7, KEEP-13, KEEP-17: abort, commit, abort and commit, some in one pass."""
    producer, other = Producer(compacted), Producer(compacted, 8)
    for number, commit in enumerate([False, True, False, True, True, False]):
        other.send(b"b", b"%d" % number)
        producer.transaction(b"a", b"%d" % number, commit=commit)
        other.end(commit=not commit)
        if number % 2:
            compacted.clean(NOW_MS + number)
        assert table(compacted).get(b"a") == {0: None, 1: b"1", 2: b"1", 3: b"3"}.get(number, b"4")
    compacted.clean(NOW_MS + 10)
    assert table(compacted) == {b"a": b"4", b"b": b"5"}
    assert [record.value for record in read_all(compacted.log)] == [b"4", b"5"]


def test_a_transaction_that_begins_below_the_log_start_stays_aborted(
    compacted: CompactedLog,
) -> None:
    """KEEP-13, KEEP-19: of the same producer what follows is committed all the same."""
    producer = Producer(compacted)
    put(compacted, b"a", b"kept")
    producer.send(b"b", b"below the start")
    put(compacted, b"c", b"kept")
    compacted.log.roll(NOW_MS)
    producer.send(b"c", b"aborted")
    producer.end(commit=False)
    producer.transaction(b"d", b"1", commit=True)
    compacted.log.delete_records_before(2)
    compacted.clean()
    producer.transaction(b"d", b"2", commit=True)
    compacted.clean(NOW_MS + 10)
    assert table(compacted) == {b"c": b"kept", b"d": b"2"}
    assert all(record.value != b"aborted" for record in read_all(compacted.log))


@pytest.mark.parametrize("commit", [False, True])
def test_a_transaction_longer_than_the_map_is_judged_as_one(tmp_path: Path, commit: bool) -> None:
    """CMAP-6, CMAP-7, KEEP-14, KEEP-17: several passes see a part of it each."""
    compacted = CompactedLog(tmp_path / "log", CONFIG, map_bytes=24 * 6)
    producer = Producer(compacted)
    for number in range(20):
        put(compacted, b"%d" % number, b"before")
    for number in range(20):
        producer.send(b"%d" % number, b"inside")
        if number % 5 == 0:
            compacted.log.roll(NOW_MS)
    producer.end(commit=commit)
    expected = {b"%d" % number: b"inside" if commit else b"before" for number in range(20)}
    for step in range(20):
        compacted.clean(NOW_MS + step)
        assert table(compacted) == expected
        compacted.restart(clean=step % 2 == 0)
    assert compacted.first_dirty == compacted.log.offsets.log_end
    assert {record.key: record.value for record in read_all(compacted.log)} == expected


def test_a_marker_that_has_to_stay_keeps_its_record(compacted: CompactedLog) -> None:
    """KEEP-9, KEEP-10, KEEP-16, U26: aiokafka and kafka-python do not get past one without."""
    Producer(compacted).end(commit=True)  # alone: the last trace of its producer
    put(compacted, b"a", b"1")
    Producer(compacted, 8).end(commit=False)  # the one in front of the high watermark
    for step in range(4):
        compacted.clean(NOW_MS + 2000 * step)
    headers = [batch.header for batch in stored_batches(compacted.log)]
    assert [header.record_count for header in headers if header.is_control] == [1, 1]


def test_a_walk_may_begin_anywhere() -> None:
    """One producer's aborts at 10 to 13 and 30 to 35 say nothing of what lies between."""
    entries = [AbortedTransaction(7, 30, 35, 36), AbortedTransaction(7, 10, 13, 14)]

    def data(offset: int, producer_id: int = 7) -> RecordBatch:
        return RecordBatch(
            build_batch(
                [(NOW_MS, b"k", b"v", ())],
                base_offset=offset,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
        )

    def marker(offset: int) -> RecordBatch:
        return RecordBatch(
            build_marker(
                ControlType.ABORT,
                producer_id=7,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=NOW_MS,
                base_offset=offset,
            )
        )

    for start in (5, 11, 14, 20, 31, 36):
        walk = TransactionWalk(entries)
        aborted = [offset for offset in range(start, 40) if walk.is_aborted(data(offset).header)]
        assert aborted == [
            offset for offset in range(start, 40) if 10 <= offset <= 13 or 30 <= offset <= 35
        ]
    walk = TransactionWalk(entries)
    assert not walk.is_aborted(data(11, producer_id=8).header)
    assert walk.end(marker(13)) == (entries[1], False)
    assert walk.is_aborted(data(32).header)
    assert walk.end(marker(35)) == (entries[0], True)
    assert walk.end(marker(36)) == (None, False)

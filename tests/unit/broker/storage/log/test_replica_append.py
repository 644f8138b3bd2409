"""Appends of a follower."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from seglog.broker.storage.log.log import Log
from seglog.broker.storage.log.replica_append import UnexpectedOffsetError
from seglog.protocol.checksum import crc32c
from seglog.protocol.errors import RecordError
from seglog.protocol.types import INT32_MAX
from support.log_builder import (
    KEEP,
    NOW_MS,
    append,
    append_many,
    base_offsets,
    end_transaction,
    offsets_of,
    open_log,
    read_all,
    read_bytes,
    reopen,
)
from support.segment_builder import batch as stored_batch


@pytest.fixture
def follower(tmp_path: Path) -> Log:
    return open_log(tmp_path / "follower")


def replicate(log: Log, *batches: bytes, leader_epoch: int = 0) -> int:
    """Append what a leader sent; the new log end."""
    content = memoryview(bytearray(b"".join(batches)))
    log.append_as_follower(content, now_ms=NOW_MS, leader_epoch=leader_epoch)
    return log.offsets.log_end


def test_offsets_are_taken_as_they_are(follower: Log) -> None:
    """APP-20: gaps are allowed."""
    assert replicate(follower, stored_batch(5), stored_batch(9, [NOW_MS] * 3)) == 12
    assert offsets_of(read_all(follower)) == [5, 9, 10, 11]


@pytest.mark.parametrize("offsets", [[4], [5, 5], [9, 7]])
def test_offsets_that_do_not_ascend_are_refused(follower: Log, offsets: list[int]) -> None:
    """APP-20."""
    replicate(follower, stored_batch(4))
    with pytest.raises(UnexpectedOffsetError):
        replicate(follower, *(stored_batch(offset) for offset in offsets))
    assert follower.offsets.log_end == 5


def test_batches_of_a_newer_leader_wait(follower: Log) -> None:
    """APP-21."""
    batches = [
        stored_batch(offset, leader_epoch=epoch) for offset, epoch in enumerate([1, 1, 2, 1])
    ]
    assert replicate(follower, *batches, leader_epoch=1) == 2
    assert follower.leader_epochs.latest_epoch == 1


def test_damaged_batch_refuses_the_whole_append(follower: Log) -> None:
    """APP-3."""
    damaged = bytearray(stored_batch(1))
    damaged[-1] ^= 1
    with pytest.raises(RecordError):
        replicate(follower, stored_batch(0), bytes(damaged))
    assert follower.segment_bytes_total == 0


def test_torn_tail_is_left_out(follower: Log) -> None:
    """APP-1, APP-2."""
    assert replicate(follower, stored_batch(0), stored_batch(1)[:-5]) == 1
    assert replicate(follower, stored_batch(1)[:50]) == 1


def test_append_larger_than_a_segment_gets_one_of_its_own(tmp_path: Path) -> None:
    """APP-7, ROLL-7: the next segment begins where this one ends, if what comes fits there."""
    log = open_log(tmp_path / "log", replace(KEEP, segment_bytes=100))
    replicate(log, stored_batch(0, value=bytes(500)))
    replicate(log, stored_batch(10, value=bytes(500)))
    assert base_offsets(log) == [0, 1]
    replicate(log, stored_batch(INT32_MAX + 50))
    assert base_offsets(log) == [0, 1, INT32_MAX + 50]
    for clean in (False, True):
        log = reopen(log, clean=clean)
        assert offsets_of(read_all(log)) == [0, 10, INT32_MAX + 50]


def test_follower_comes_to_the_same_state_as_its_leader(tmp_path: Path, follower: Log) -> None:
    """IDEM-10, IDEM-12, TXN-14."""
    leader = open_log(tmp_path / "leader")
    append_many(leader, 2)
    append(leader, producer_id=1, sequence=0, transactional=True)
    append(leader, producer_id=2, sequence=5)
    append(leader, producer_id=3, sequence=0, transactional=True)
    end_transaction(leader, 1, commit=False)
    replicate(follower, read_bytes(leader, 0))
    assert read_bytes(follower, 0) == read_bytes(leader, 0)
    assert list(follower.producer_state) == list(leader.producer_state)
    assert follower.aborted_transactions(0, 6) == leader.aborted_transactions(0, 6)
    assert follower.producer_state.transactions.in_order() == [(3, 4)]


@pytest.mark.parametrize(("count", "delta"), [(2, 0), (-1, 0), (1, -1), (50_000_000, 50_000_000)])
def test_batch_that_contradicts_itself_is_refused(follower: Log, count: int, delta: int) -> None:
    """T9: with a right checksum, as a leader would refuse it from a client."""
    lying = bytearray(stored_batch(1))
    struct.pack_into(">i", lying, 23, delta)
    struct.pack_into(">i", lying, 57, count)
    struct.pack_into(">I", lying, 17, crc32c(memoryview(lying)[21:]))
    with pytest.raises(RecordError, match="records up to"):
        replicate(follower, stored_batch(0), bytes(lying))
    assert follower.segment_bytes_total == 0

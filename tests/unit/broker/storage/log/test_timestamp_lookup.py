"""From timestamps to offsets, over segments."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from seglog.broker.storage.errors import DeferredReadError
from seglog.broker.storage.log.log import FetchIsolation, Log
from seglog.protocol.compression import Codec
from seglog.protocol.types import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from support.log_builder import (
    KEEP,
    NOW_MS,
    append,
    append_many,
    at_once,
    end_transaction,
    open_log,
    reopen,
    truncate,
)

END = FetchIsolation.LOG_END
COMMITTED = FetchIsolation.HIGH_WATERMARK
TRANSACTIONS = FetchIsolation.TXN_COMMITTED
SMALL = replace(KEEP, segment_bytes=2000, index_interval_bytes=200)


def offset_at(log: Log, timestamp_ms: int, isolation: FetchIsolation = COMMITTED) -> int | None:
    found = at_once(lambda: log.offset_for_timestamp(timestamp_ms, isolation=isolation))
    return None if found is None else found.offset


def test_time_between_two_records_leads_to_the_later_one(tmp_path: Path) -> None:
    """C005, LIST-1 to LIST-5."""
    log = open_log(tmp_path / "log")
    for stamp in (2, 4, 6, 8):
        append(log, timestamps_ms=stamp)
    assert [offset_at(log, stamp) for stamp in range(10)] == [0, 0, 0, 1, 1, 2, 2, 3, 3, None]
    assert offset_at(log, EARLIEST_TIMESTAMP) == 0
    assert offset_at(log, LATEST_TIMESTAMP) == 4
    assert offset_at(log, MAX_TIMESTAMP) == 3


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_lookup_is_exact_to_the_record(tmp_path: Path, codec: Codec) -> None:
    """C005: also inside batches, compressed or not, and over segments and restarts."""
    log = open_log(tmp_path / "log", SMALL)
    for first in range(0, 1000, 10):
        stamps = [NOW_MS + 10 * (first + index) for index in range(10)]
        append(log, [b"v" * 20] * 10, timestamps_ms=stamps, codec=codec)
    chosen = random.Random(5).sample(range(1000), 60)
    for restarts in (0, 1):
        if restarts:
            log = reopen(log, clean=True)
            log.set_high_watermark(1000)
        for offset in chosen:
            assert offset_at(log, NOW_MS + 10 * offset) == offset
            assert offset_at(log, NOW_MS + 10 * offset - 1) == offset
            assert offset_at(log, NOW_MS + 10 * offset + 1) == (
                offset + 1 if offset < 999 else None
            )


def test_times_that_do_not_ascend_are_found_at_their_first_record(tmp_path: Path) -> None:
    """TIX-7, LIST-3: within and between segments, against a plain search."""
    log = open_log(tmp_path / "log", SMALL)
    generator = random.Random(11)
    stamps = [NOW_MS + generator.randrange(500) for _ in range(120)]
    for stamp in stamps:
        append(log, [b"v" * 50], timestamps_ms=stamp)
    assert len(log.segments) > 5
    for target in range(NOW_MS - 2, NOW_MS + 502, 3):
        expected = next((number for number, stamp in enumerate(stamps) if stamp >= target), None)
        assert offset_at(log, target) == expected
    assert offset_at(log, MAX_TIMESTAMP) == stamps.index(max(stamps))


def test_running_maxima_follow_appends_rolls_and_deletions(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", SMALL)
    for number in range(100):
        append(log, [b"v" * 50], timestamps_ms=NOW_MS + number)
        assert offset_at(log, NOW_MS + number) == number
    log.delete_records_before(50)
    log.delete_segments([found[0] for found in log.deletable_segments(NOW_MS)], NOW_MS)
    assert offset_at(log, 0) == 50
    assert offset_at(log, NOW_MS + 77) == 77


@pytest.mark.parametrize("target", [5, 40])
def test_running_maxima_are_forgotten_when_a_sealed_segment_is_cut(
    tmp_path: Path, target: int
) -> None:
    """TRUNC-8: the same segment is sealed again later, with other records in it."""
    log = open_log(tmp_path / "log", SMALL)
    for number in range(60):
        append(log, [b"v" * 50], timestamps_ms=NOW_MS + number)
    assert offset_at(log, NOW_MS + 59) == 59
    truncate(log, target)
    assert offset_at(log, NOW_MS + target - 1) == target - 1
    for number in range(target, 100):
        append(log, [b"v" * 50], timestamps_ms=NOW_MS + 1000 + number)
        assert offset_at(log, NOW_MS + 1000 + number) == number


@pytest.mark.parametrize("damage", ["odd size", "missing"])
def test_time_is_found_where_most_time_indexes_have_to_be_built_anew(
    tmp_path: Path, damage: str
) -> None:
    """C005: opening them in another thread fails, and has to be tried once, not for ever."""
    log = open_log(tmp_path / "log", replace(KEEP, segment_bytes=400))
    append_many(log, 60, value_bytes=40)
    log.close()
    for path in (tmp_path / "log").glob("*.timeindex"):
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(bytes(11))
    log = open_log(tmp_path / "log", replace(KEEP, segment_bytes=400), clean=True)
    assert len(log.segments) > 12
    for _ in range(2 * len(log.segments)):
        try:
            found = log.offset_for_timestamp(NOW_MS, isolation=END)
        except DeferredReadError as deferred:
            deferred.work()()
        else:
            break
    else:
        pytest.fail("no answer, however often it is asked again")
    assert found is not None
    assert found.offset == 0
    log.close()


def test_record_below_the_log_start_is_not_found(tmp_path: Path) -> None:
    """LIST-5: neither by its time nor as the greatest."""
    log = open_log(tmp_path / "log")
    for stamp in (NOW_MS + 50, NOW_MS, NOW_MS + 20, NOW_MS + 10):
        append(log, timestamps_ms=stamp)
    log.delete_records_before(1)
    assert offset_at(log, NOW_MS + 15) == 2
    assert offset_at(log, NOW_MS + 40) is None
    assert offset_at(log, MAX_TIMESTAMP) == 2
    assert offset_at(log, EARLIEST_TIMESTAMP) == 1
    append(log, [b"v"] * 3, timestamps_ms=[NOW_MS + 99, NOW_MS + 5, NOW_MS + 30])
    log.delete_records_before(5)
    assert offset_at(log, MAX_TIMESTAMP) == 6


def test_records_beyond_the_readers_limit_are_not_found(tmp_path: Path) -> None:
    """C055, LIST-7."""
    log = open_log(tmp_path / "log")
    for stamp in range(10):
        append(log, timestamps_ms=NOW_MS + stamp)
    stamps = range(NOW_MS + 10, NOW_MS + 15)
    append(log, [b"x"] * 5, timestamps_ms=stamps, producer_id=7, sequence=0, transactional=True)
    for stamp in range(15, 20):
        append(log, timestamps_ms=NOW_MS + stamp)
    targets = [LATEST_TIMESTAMP, NOW_MS + 5, NOW_MS + 12, NOW_MS + 17]
    assert [offset_at(log, each, TRANSACTIONS) for each in targets] == [10, 5, None, None]
    assert [offset_at(log, each, COMMITTED) for each in targets] == [20, 5, 12, 17]
    end_transaction(log, 7, commit=True)
    for isolation in (TRANSACTIONS, COMMITTED):
        assert [offset_at(log, each, isolation) for each in targets] == [21, 5, 12, 17]


def test_specials_on_an_empty_log(tmp_path: Path) -> None:
    """LIST-3."""
    log = open_log(tmp_path / "log")
    assert offset_at(log, EARLIEST_TIMESTAMP) == 0
    assert offset_at(log, LATEST_TIMESTAMP) == 0
    assert offset_at(log, MAX_TIMESTAMP) is None
    assert offset_at(log, 0) is None


def test_tiered_specials_answer_as_without_tiers(tmp_path: Path) -> None:
    """LIST-4."""
    log = open_log(tmp_path / "log")
    append_many(log, 3)
    log.delete_records_before(1)
    assert offset_at(log, EARLIEST_LOCAL_TIMESTAMP) == 1
    assert offset_at(log, LATEST_TIERED_TIMESTAMP) == -1
    assert offset_at(log, EARLIEST_PENDING_UPLOAD_TIMESTAMP) == -1


def test_answers_carry_leader_epochs(tmp_path: Path) -> None:
    """LIST-1, LIST-2, LIST-10."""
    log = open_log(tmp_path / "log")
    append(log, timestamps_ms=NOW_MS, leader_epoch=2)
    append(log, timestamps_ms=NOW_MS + 1, leader_epoch=5)
    for timestamp, epoch in [
        (EARLIEST_TIMESTAMP, 2),
        (LATEST_TIMESTAMP, 5),
        (NOW_MS, 2),
        (NOW_MS + 1, 5),
    ]:
        found = log.offset_for_timestamp(timestamp, isolation=END)
        assert found is not None
        assert found.leader_epoch == epoch


def test_batch_stamped_by_the_broker_answers_with_its_time(tmp_path: Path) -> None:
    """LIST-11."""
    log = open_log(tmp_path / "log", replace(KEEP, message_timestamp_type="LogAppendTime"))
    append(log, [b"a", b"b"], timestamps_ms=[1, 2], now_ms=NOW_MS)
    append(log, [b"c", b"d"], timestamps_ms=[1, 2], now_ms=NOW_MS + 10)
    assert offset_at(log, 1) == 0
    assert offset_at(log, NOW_MS + 1) == 2
    found = log.offset_for_timestamp(MAX_TIMESTAMP)
    assert found is not None
    assert found[:2] == (NOW_MS + 10, 2)

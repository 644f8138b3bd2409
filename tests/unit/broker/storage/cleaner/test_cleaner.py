"""Both passes over real files: what stays of a log, byte by byte."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seglog.broker.storage.cleaner.plan import progress_of
from seglog.broker.storage.errors import CorruptLogError
from seglog.broker.storage.log.producer_entry import LastProducerRecord
from seglog.broker.storage.segment.transaction_index import AbortedTransaction
from seglog.config.log_config import LogConfig
from seglog.protocol.compression import Codec
from seglog.protocol.limits import MAX_DECOMPRESSED_BYTES
from seglog.protocol.records.builder import build_batch
from seglog.protocol.records.control import ControlType, build_marker
from seglog.protocol.types import TimestampType
from support.cleaning import NOW_MS, SealedLog
from support.examples import examples
from support.index_checks import entries_of

CONFIG = LogConfig(
    segment_bytes=1 << 20,
    segment_index_bytes=1 << 12,
    index_interval_bytes=100,
    delete_retention_ms=1000,
)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SealedLog]:
    sealed = SealedLog(tmp_path, CONFIG)
    yield sealed
    sealed.close()


def one(offset: int, key: bytes | None, value: bytes | None, **options) -> bytearray:
    return build_batch([(NOW_MS, key, value, ())], base_offset=offset, **options)


def view(sealed: SealedLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in sealed.records()]


def test_an_older_record_survives_or_an_offset_changes(log: SealedLog) -> None:
    """KEEP-3, KEEP-5."""
    log.add_segment([one(0, b"a", b"1"), one(1, b"b", b"1"), one(2, b"a", b"2")], 0)
    log.add_segment([one(3, b"c", b"1"), one(4, b"b", b"2")], 3)
    result = log.clean()
    assert view(log) == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2")]
    assert result.end_offset == 5
    assert [segment.base_offset for segment in log.segments] == [0]


def test_a_pass_over_a_clean_log_changes_bytes(log: SealedLog) -> None:
    """INV-5: compaction is idempotent at constant time."""
    log.add_segment([one(offset, b"k%d" % (offset % 3), b"v") for offset in range(10)], 0)
    log.clean()
    before = [bytes(batch.view) for batch in log.batches()]
    log.clean()
    assert [bytes(batch.view) for batch in log.batches()] == before


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_changes_its_codec_or_its_records(log: SealedLog, codec: Codec) -> None:
    """KEEP-6, KEEP-7: rebuilt with its own codec, producer, leader epoch and times."""
    records = [
        (NOW_MS + number, b"key-%d" % number, b"value" * 50, [("h", b"x"), ("h", None)])
        for number in range(20)
    ]
    log.add_segment(
        [
            build_batch(
                records,
                codec=codec,
                producer_id=7,
                producer_epoch=2,
                base_sequence=100,
                leader_epoch=4,
            ),
            one(20, b"key-0", b"newer"),
            one(21, b"key-19", b"newer"),
        ],
        0,
    )
    log.clean()
    rebuilt, *_ = log.batches()
    rebuilt.check()
    header = rebuilt.header
    assert header.codec is codec
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 19, 18)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 100)
    assert header.partition_leader_epoch == 4
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS + 1, NOW_MS + 18)
    assert [
        (record.offset, record.timestamp_ms, record.key, record.headers)
        for record in rebuilt.records()
    ] == [
        (number, NOW_MS + number, b"key-%d" % number, (("h", b"x"), ("h", None)))
        for number in range(1, 19)
    ]


@pytest.mark.parametrize("is_rebuilt", [True, False])
def test_a_topic_may_inflate_more_than_the_default(tmp_path: Path, is_rebuilt: bool) -> None:
    """Batches that ``max.decompressed.message.bytes`` let in are cleaned by the same bound."""
    size = MAX_DECOMPRESSED_BYTES + 1_000_000
    config = replace(CONFIG, max_decompressed_message_bytes=2 * MAX_DECOMPRESSED_BYTES)
    sealed = SealedLog(tmp_path, config)
    records = [(NOW_MS, b"large", bytes(size), ()), (NOW_MS, b"small", b"kept", ())]
    newer = b"small" if is_rebuilt else b"other"
    sealed.add_segment(
        [build_batch(records, codec=Codec.ZSTD), one(2, newer, b"newer")],
        0,
    )
    sealed.clean()
    assert [batch.header.record_count for batch in sealed.batches()] == [2 - is_rebuilt, 1]
    sealed.close()


def test_the_brokers_stamp_is_lost_when_a_batch_is_rebuilt(log: SealedLog) -> None:
    """TS-8, KEEP-7."""
    stamped = build_batch(
        [(NOW_MS, b"a", b"1", ()), (NOW_MS + 5, b"b", b"1", ())],
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time_ms=NOW_MS + 77,
    )
    log.add_segment([stamped, one(2, b"a", b"2")], 0)
    log.clean()
    first = log.batches()[0]
    assert first.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp_ms for record in first.records()] == [NOW_MS + 77]


def test_a_tombstone_goes_too_early_or_never(log: SealedLog) -> None:
    """KEEP-11: its clock starts with the first pass that keeps it and never starts again."""
    log.add_segment([one(0, b"a", b"1"), one(1, b"b", b"1"), one(2, b"a", None)], 0)
    log.clean(NOW_MS)
    assert view(log) == [(1, b"b", b"1"), (2, b"a", None)]
    horizon_ms = NOW_MS + CONFIG.delete_retention_ms
    assert log.batches()[-1].header.delete_horizon_ms == horizon_ms
    assert log.records()[-1].timestamp_ms == NOW_MS

    log.clean(horizon_ms - 1)
    assert view(log) == [(1, b"b", b"1"), (2, b"a", None)]
    assert log.batches()[-1].header.delete_horizon_ms == horizon_ms

    log.clean(horizon_ms)
    assert view(log) == [(1, b"b", b"1")]


def test_a_record_without_key_stops_the_cleaner(log: SealedLog) -> None:
    """KEEP-4, case C018: dropped and counted; the pass goes on."""
    log.add_segment([one(0, None, b"1"), one(1, b"a", b"1"), one(2, None, b"2")], 0)
    result = log.clean()
    assert view(log) == [(1, b"a", b"1")]
    assert result.statistics.records_without_key == 2


def test_a_producers_last_sequence_vanishes_with_its_record(log: SealedLog) -> None:
    """KEEP-9: an empty batch of 61 bytes stays for as long as the producer is known."""
    log.add_segment(
        [
            one(0, b"a", b"1", producer_id=9, producer_epoch=1, base_sequence=0),
            one(1, b"a", b"2", producer_id=9, producer_epoch=1, base_sequence=1),
            one(2, b"a", b"3"),
        ],
        0,
    )
    log.last_records = {9: LastProducerRecord(last_data_offset=1, producer_epoch=1)}
    log.clean()
    assert view(log) == [(2, b"a", b"3")]
    empty = log.batches()[0]
    assert (len(empty.view), empty.header.base_sequence, empty.header.last_offset) == (61, 1, 1)
    empty.check()

    log.last_records = {}
    log.clean()
    assert [batch.header.base_offset for batch in log.batches()] == [2]


def test_the_batch_in_front_of_the_high_watermark_vanishes(log: SealedLog) -> None:
    """KEEP-10."""
    log.add_segment([one(0, b"a", b"1"), one(1, b"a", b"2")], 0)
    log.high_watermark = 1
    log.clean()
    assert [batch.header.base_offset for batch in log.batches()] == [0, 1]
    assert view(log) == [(1, b"a", b"2")]


def transactional(offset: int, producer_id: int, key: bytes, value: bytes) -> bytearray:
    return one(
        offset,
        key,
        value,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def marker(offset: int, producer_id: int, control_type: ControlType) -> bytearray:
    return build_marker(
        control_type,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=1,
        timestamp_ms=NOW_MS,
        base_offset=offset,
    )


def test_aborted_data_supersedes_committed_data(log: SealedLog) -> None:
    """CMAP-7, KEEP-13, KEEP-19, over a segment border (KEEP-17)."""
    log.add_segment([transactional(0, 1, b"k", b"committed"), marker(1, 1, ControlType.COMMIT)], 0)
    log.add_segment([transactional(2, 2, b"k", b"aborted"), transactional(3, 1, b"j", b"1")], 2)
    log.add_segment([marker(4, 2, ControlType.ABORT), marker(5, 1, ControlType.COMMIT)], 4)
    log.aborted = [AbortedTransaction(2, 2, 4, 3)]
    log.clean()
    assert view(log) == [(0, b"k", b"committed"), (3, b"j", b"1")]
    markers = [batch.header.base_offset for batch in log.batches() if batch.header.is_control]
    assert markers == [1, 4, 5]
    assert [entry for segment in log.segments for entry in segment.transaction_index.all()] == [
        AbortedTransaction(2, 2, 4, 3)
    ]


def test_a_marker_stays_for_ever_or_goes_at_once(log: SealedLog) -> None:
    """KEEP-14..16: first no batch is left, then it gets a horizon, then it goes."""
    log.add_segment(
        [
            transactional(0, 1, b"k", b"1"),
            marker(1, 1, ControlType.COMMIT),
            transactional(2, 2, b"k", b"x"),
            marker(3, 2, ControlType.ABORT),
            one(4, b"k", b"2"),
        ],
        0,
    )
    log.aborted = [AbortedTransaction(2, 2, 3, 4)]

    def markers() -> list[tuple[int, int | None]]:
        return [
            (batch.header.base_offset, batch.header.delete_horizon_ms)
            for batch in log.batches()
            if batch.header.is_control
        ]

    log.clean(NOW_MS)
    assert view(log) == [(4, b"k", b"2")]
    assert markers() == [(1, None), (3, None)]
    log.aborted = [AbortedTransaction(2, 2, 3, 4)]
    log.clean(NOW_MS + 1)
    horizon_ms = NOW_MS + 1 + CONFIG.delete_retention_ms
    assert markers() == [(1, horizon_ms), (3, horizon_ms)]
    log.clean(horizon_ms - 1)
    assert len(markers()) == 2
    log.clean(horizon_ms)
    assert markers() == []


def test_a_full_map_loses_records_that_it_did_not_reach(log: SealedLog) -> None:
    """CMAP-6, KEEP-2, CLN-11: the next pass goes on where this one stopped."""
    log.add_segment([one(offset, b"k%02d" % (offset % 20), b"v") for offset in range(40)], 0)
    passes = 0
    while log.first_dirty_offset < 40:
        result = log.clean(map_bytes=24 * 8)
        passes += 1
        assert passes < 20
    assert result.statistics.is_map_full is False
    assert passes > 1
    last = {record.key: record.offset for record in log.records()}
    assert last == {b"k%02d" % number: number + 20 for number in range(20)}


def test_a_pass_whose_map_is_full_ends_before_it_says_so(log: SealedLog) -> None:
    """Its progress stopped at a quarter: what did not fit into the map counted twice."""
    for base in (0, 20, 40):
        batches = [one(base + offset, b"%d" % (base + offset), b"v") for offset in range(20)]
        log.add_segment(batches, base)
    plan = log.plan()
    statistics = log.clean(map_bytes=24 * 8).statistics
    assert statistics.is_map_full
    done, total = progress_of(plan, statistics)
    assert 0 < done == total < 2 * plan.segments[0].size_bytes
    log.clean(map_bytes=24 * 100)


def test_a_batch_larger_than_the_buffer_ends_the_pass(log: SealedLog) -> None:
    """SEG-5."""
    large = bytes(300_000)
    log.add_segment([one(0, b"a", large), one(1, b"b", b"1"), one(2, b"b", large)], 0)
    log.clean(buffer_bytes=100)
    assert [(offset, key) for offset, key, _ in view(log)] == [(0, b"a"), (2, b"b")]


def test_segments_grow_beyond_their_size_when_they_are_merged(tmp_path: Path) -> None:
    """SEG-1, SEG-2."""
    config = LogConfig(segment_bytes=1000, segment_index_bytes=1 << 12, index_interval_bytes=100)
    log = SealedLog(tmp_path, config)
    for base in range(0, 50, 5):
        batches = [one(base + number, b"k%d" % (base + number), bytes(20)) for number in range(5)]
        log.add_segment(batches, base).files.set_modified_ms(NOW_MS - 1000 + base)
    log.clean()
    assert all(segment.size_bytes <= 1000 for segment in log.segments)
    assert len(log.segments) < 10
    first = log.swaps[0]
    assert log.segments.get(first.new_base_offsets[0]).files.modified_ms == (
        NOW_MS - 1000 + first.old_base_offsets[-1]
    )
    log.close()


def test_offsets_of_a_merged_segment_do_not_fit_its_index(log: SealedLog) -> None:
    """SEG-1, case C015: three segments 2^31 apart stay three; empty ones are merged."""
    bases = [0, 2147483000, 4294967000]
    for number, base in enumerate(bases):
        log.add_segment([one(base, b"k%d" % number, b"v")], base)
    for _ in range(2):
        log.clean()
        assert [record.offset for record in log.records()] == bases
        for segment in log.segments:
            assert segment.next_offset() - segment.base_offset <= 2**31
    log.add_segment([one(4294967001, b"k0", None), one(4294967002, b"k1", b"new")], 4294967001)
    log.clean()
    assert [record.offset for record in log.records()] == [4294967000, 4294967001, 4294967002]
    log.clean()
    assert len(log.segments) <= 3


def test_the_index_of_a_cleaned_segment_differs_from_one_built_by_appends(
    log: SealedLog, tmp_path: Path
) -> None:
    """INV-2."""
    batches = [one(offset, b"k%d" % (offset % 40), bytes(30)) for offset in range(200)]
    log.add_segment(batches, 0)
    log.clean()
    (cleaned,) = log.segments
    rebuilt_directory = tmp_path / "rebuilt"
    rebuilt_directory.mkdir()
    rebuilt = SealedLog(rebuilt_directory, CONFIG)
    other = rebuilt.add_segment([bytes(batch.view) for batch in log.batches()], 0)
    assert entries_of(cleaned.offset_index) == entries_of(other.offset_index)
    assert entries_of(cleaned.time_index) == entries_of(other.time_index)
    assert cleaned.offset_index.entries > 5
    rebuilt.close()


def test_rot_on_disk_is_copied_with_a_fresh_checksum(log: SealedLog, tmp_path: Path) -> None:
    """CLN-8: a damaged batch ends the pass; no file of it is left and the old ones stay."""
    log.add_segment([one(0, b"a", b"1"), one(1, b"a", b"2")], 0)
    path = tmp_path / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    names = sorted(entry.name for entry in tmp_path.iterdir())
    with pytest.raises(CorruptLogError, match="fails its checks"):
        log.clean()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == names
    assert path.read_bytes() == content


class StopError(Exception):
    """Raised from outside to end a pass."""


def test_an_ended_pass_leaves_files_behind(log: SealedLog, tmp_path: Path) -> None:
    """SEG-8: whatever is told of a chunk may end the pass, at each chunk."""
    from seglog.broker.storage.cleaner.cleaner import Cleaner

    log.add_segment([one(offset, b"k%d" % offset, bytes(50)) for offset in range(50)], 0)
    names = sorted(entry.name for entry in tmp_path.iterdir())
    cleaner = Cleaner(log.file_system, map_bytes=1 << 12, map_load_factor=0.9, buffer_bytes=2000)
    for limit in range(1, 6):
        calls = 0

        def account(_bytes: int, limit: int = limit) -> None:
            nonlocal calls
            calls += 1
            if calls == limit:
                raise StopError

        with pytest.raises(StopError):
            cleaner.clean(log.plan(), account=account, hand_over=lambda swap: None)
        assert sorted(entry.name for entry in tmp_path.iterdir()) == names


key_numbers = st.integers(0, 5)
entries = st.tuples(key_numbers, st.one_of(st.none(), st.binary(max_size=30)))
model_batches = st.lists(
    st.tuples(st.lists(entries, min_size=1, max_size=5), st.sampled_from(list(Codec))),
    min_size=1,
    max_size=8,
)


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(
    st.lists(model_batches, min_size=1, max_size=4),
    st.sampled_from([64, 400, 4096]),
    st.sampled_from([24 * 4, 1 << 14]),
)
def test_compaction_keeps_something_else_than_the_last_of_each_key(
    tmp_path_factory: pytest.TempPathFactory,
    specification: list,
    buffer_bytes: int,
    map_bytes: int,
) -> None:
    """INV-1, INV-5: any codecs, segment borders, buffers and maps, against a dict."""
    log = SealedLog(tmp_path_factory.mktemp("log"), CONFIG)
    offset = 0
    written = []
    for segment in specification:
        base, batches = offset, []
        for fields, codec in segment:
            records = [(NOW_MS, b"key-%d" % number, value, ()) for number, value in fields]
            batches.append(build_batch(records, base_offset=offset, codec=codec))
            written += [(offset + i, key, value) for i, (_, key, value, _) in enumerate(records)]
            offset += len(fields)
        log.add_segment(batches, base)
    for _ in range(60):
        log.clean(NOW_MS, map_bytes=map_bytes, buffer_bytes=buffer_bytes)
        if log.first_dirty_offset == offset:
            break
    last = {key: number for number, key, _ in written}
    assert view(log) == [each for each in written if last[each[1]] == each[0]]
    log.close()

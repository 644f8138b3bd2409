"""Field cases about segments, retention and the disk guard."""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from seglog.clients import Admin, NewTopic, OffsetOutOfRangeError
from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records import build_batch
from seglog.protocol.types import INT32_MAX, TopicPartition
from support.batches import T
from support.eventually import eventually
from support.processor_time import in_time
from support.real_broker import (
    SHORT_PERIODS,
    base_offsets,
    count_suffix,
    describe,
    files_of,
    log_lines,
)
from support.stopped_logs import (
    data_files,
    empty_folder,
    read_offset_index,
    read_time_index,
    stored_batches,
    write_segment,
)
from support.wires import WIRES, Produced, Wire, open_wire, read_records

MIB = 1 << 20
EARLIEST, LATEST = -2, -1
QUIET = {**SHORT_PERIODS, "log.initial.task.delay.ms": 3_600_000}
"""Retention runs when a test asks for it."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def sized_batch(size: int, stamp: int | None = None) -> bytearray:
    """A batch of one record and exactly so many bytes."""
    stamp = now_ms() if stamp is None else stamp
    length = size - 61 - 6
    while len(found := build_batch([(stamp, None, bytes(length), ())])) > size:
        length -= 1
    assert len(found) == size
    return found


def fill(wire: Wire, topic: str, size: int, *, partition: int = 0, pieces: int = 16) -> None:
    """Append exactly so many bytes."""
    for _ in range(pieces):
        answer = wire.produce(topic, sized_batch(size // pieces), partition=partition)
        assert answer.error == ErrorCode.NONE, answer


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running_broker(configs=QUIET) as process:
        yield process


@pytest.fixture(scope="module")
def admin(broker: RunningBroker) -> Iterator[Admin]:
    with Admin(broker.address) as client:
        yield client


# ---- C009


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("by_hand", [False, True], ids=["segment.bytes", "rolled by hand"])
def test_size_retention_removes_no_more_than_asked(
    broker: RunningBroker, admin: Admin, dialect: str, by_hand: bool
) -> None:
    """C009: 1+2+1 MiB at a limit of 2 MiB keep 3 MiB, and with 1 MiB more 2 MiB."""
    topic = f"sizes-{dialect}-{by_hand}"
    admin.create_topic(topic, partitions=1, configs={"segment.bytes": 64 * MIB})
    with open_wire(dialect, broker.port) as wire:

        def fill_segment(mib: int) -> None:
            fill(wire, topic, mib * MIB // 16, pieces=1)
            if not by_hand:
                admin.alter_configs("topic", topic, {"segment.bytes": mib * MIB})
            fill(wire, topic, mib * MIB // 16 * 15, pieces=15)
            if by_hand:
                admin.roll(topic)

        for mib in (1, 2, 1):
            fill_segment(mib)
        segments = [each for each in describe(admin, topic).segments if each.size_bytes]
        assert [each.size_bytes for each in segments] == [MIB, 2 * MIB, MIB]
        second, third = (each.base_offset for each in segments[1:])
        admin.alter_configs("topic", topic, {"retention.bytes": 2097152})

        dry = admin.run_retention([topic], dry_run=True)
        assert [(each.base_offset, each.size_bytes) for each in dry] == [(0, MIB)]
        assert dry[0].reason == "retention.bytes"
        assert describe(admin, topic).size_bytes == 4 * MIB
        assert admin.run_retention([topic]) == dry
        assert describe(admin, topic).size_bytes == 3 * MIB
        assert wire.find(topic, EARLIEST).offset == second
        assert admin.run_retention([topic]) == []

        fill_segment(1)
        assert [each.base_offset for each in admin.run_retention([topic])] == [second]
        assert describe(admin, topic).size_bytes == 2 * MIB
        assert wire.find(topic, EARLIEST).offset == third
        assert wire.fetch(topic, second).error == ErrorCode.OFFSET_OUT_OF_RANGE
        # Size alone never empties the active segment.
        fill(wire, topic, MIB // 16, pieces=1)
        admin.alter_configs("topic", topic, {"retention.bytes": 0})
        admin.run_retention([topic])
        assert len(read_records(wire, topic)) == 1
        names = eventually(
            lambda: files_of(broker, topic), until=lambda names: not count_suffix(names, ".deleted")
        )
        assert count_suffix(names, ".log") == 1


def test_a_limit_one_byte_off_keeps_or_drops_a_segment(broker: RunningBroker, admin: Admin) -> None:
    """RET-6: what remains is never below the limit, not by a byte."""
    admin.create_topic("edge", partitions=1, configs={"segment.bytes": 64 * MIB})
    with open_wire("native", broker.port) as wire:
        for _ in range(3):
            fill(wire, "edge", 100_000, pieces=1)
            admin.roll("edge")
        for limit, expected in ((200_001, 3), (200_000, 2), (100_001, 2), (100_000, 1), (1, 1)):
            admin.alter_configs("topic", "edge", {"retention.bytes": limit})
            admin.run_retention(["edge"])
            assert describe(admin, "edge").size_bytes == expected * 100_000


def test_each_partition_has_a_limit_of_its_own(broker: RunningBroker, admin: Admin) -> None:
    """C009 with several partitions, one of them empty, and a restart between two passes."""
    with running_broker(configs=QUIET) as own, Admin(own.address) as client:
        configs = {"segment.bytes": 100_000, "retention.bytes": 250_000}
        client.create_topic("many", partitions=3, configs=configs)
        with open_wire("kafka", own.port) as wire:
            fill(wire, "many", 600_000, partition=0, pieces=60)
            fill(wire, "many", 200_000, partition=2, pieces=20)
        own.stop()
        own.start()
        findings = client.run_retention()
        assert {each.partition for each in findings} == {0}
        assert sum(each.size_bytes for each in findings) == 300_000
        assert [describe(client, "many", each).size_bytes for each in range(3)] == [
            300_000, 0, 200_000,
        ]  # fmt: skip
        assert client.run_retention() == []


# ---- retention by time, and together with other rules


@pytest.mark.parametrize("dialect", WIRES)
def test_a_fully_expired_log_keeps_its_end(
    broker: RunningBroker, admin: Admin, dialect: str
) -> None:
    """RET-3, RET-13: all records go, the next one gets the next offset; also after that."""
    topic = f"expired-{dialect}"
    admin.create_topic(topic, partitions=1, configs={"retention.ms": 1000, "segment.bytes": 5000})
    with open_wire(dialect, broker.port) as wire:
        for _ in range(2):
            start = wire.find(topic, LATEST).offset
            for _ in range(30):
                wire.produce(topic, sized_batch(1000, stamp=now_ms() - 5_000))
            assert admin.run_retention([topic])
            assert wire.find(topic, EARLIEST).offset == wire.find(topic, LATEST).offset
            assert wire.find(topic, LATEST).offset == start + 30
            assert admin.run_retention([topic]) == []
        assert wire.produce(topic, sized_batch(100)).base_offset == 60


def test_retention_task_deletes_unasked_and_files_go_after_their_delay(tmp_path: Path) -> None:
    """The whole way without a call: kafka-log-retention, .deleted, delete-file."""
    with running_broker(configs=SHORT_PERIODS, folder=tmp_path) as own, Admin(own.address) as admin:
        admin.create_topic(
            "task", partitions=1,
            configs={"retention.ms": 300, "segment.bytes": 5000, "file.delete.delay.ms": 400},
        )  # fmt: skip
        with open_wire("native", own.port) as wire:
            for _ in range(20):
                wire.produce("task", sized_batch(1000))
            eventually(lambda: count_suffix(files_of(own, "task"), ".deleted"))
            eventually(lambda: wire.find("task", EARLIEST).offset == 20)
            names = eventually(
                lambda: files_of(own, "task"),
                until=lambda names: not count_suffix(names, ".deleted"),
                timeout=3,
            )
        assert count_suffix(names, ".log") == 1


@pytest.mark.parametrize("dialect", WIRES)
def test_a_fetch_waiting_below_the_new_start_gets_out_of_range(
    broker: RunningBroker, admin: Admin, dialect: str
) -> None:
    """A reader that was told of data it can have no more gets out-of-range, not silence."""
    topic = f"waiting-{dialect}"
    admin.create_topic(topic, partitions=1)
    with open_wire(dialect, broker.port) as wire, open_wire(dialect, broker.port) as other:
        for _ in range(4):
            other.produce(topic, sized_batch(100))
        options = {"max_wait_ms": 20_000, "min_bytes": 100_000}
        request = wire.fetch_request(topic, 1, **options)
        wire.send(request) if dialect == "native" else wire.send(request, wire.FETCH)
        start = time.monotonic()
        assert other.delete_before(topic, 3) == (ErrorCode.NONE, 3)
        assert wire.socket.recv(1)
        assert in_time(time.monotonic() - start, 5)


# ---- C013


@pytest.mark.slow
@pytest.mark.parametrize("dialect", WIRES)
def test_deleted_records_of_a_compacted_topic_leave_the_disk(tmp_path: Path, dialect: str) -> None:
    """C013: a start inside the active segment; 5 closed segments go, compaction goes on."""
    with running_broker(configs=SHORT_PERIODS, folder=tmp_path) as broker:
        with Admin(broker.address) as admin, open_wire(dialect, broker.port) as wire:
            configs = {
                "cleanup.policy": "compact",
                "segment.bytes": 65536,
                "min.cleanable.dirty.ratio": 0.99,
                "file.delete.delay.ms": 200,
            }
            admin.create_topic("compacted", partitions=1, configs=configs)
            number = 0

            def send_keyed(count: int) -> None:
                nonlocal number
                for _ in range(count):
                    record = (now_ms(), b"key-%d" % (number % 70), b"%d" % number + bytes(1000), ())
                    answer = wire.produce("compacted", build_batch([record]))
                    assert answer.error == ErrorCode.NONE, answer
                    number += 1

            while len(base_offsets(admin, "compacted")) < 6:
                send_keyed(1)
            send_keyed(20)
            active = base_offsets(admin, "compacted")[-1]
            start = active + 10
            assert wire.delete_before("compacted", start) == (ErrorCode.NONE, start)
            for _ in range(2):
                (result,) = admin.clean("compacted", wait=True)
                assert result.state == "done"
            names = eventually(
                lambda: files_of(broker, "compacted"),
                until=lambda names: (
                    count_suffix(names, ".log") == 1 and not count_suffix(names, ".deleted")
                ),
            )
            assert f"{active:020d}.log" in names
            state = describe(admin, "compacted")
            assert state.uncleanable_reason is None
            assert state.log_start_offset == start

            send_keyed(100)
            admin.roll("compacted")
            (result,) = admin.clean("compacted", wait=True)
            assert result.state == "done"
            found = read_records(wire, "compacted")
        expected = {b"key-%d" % (i % 70): i for i in range(start, number)}
        assert {record.key: record.offset for record in found} == expected
        assert len(found) <= len(expected) + 1
        broker.stop()
        broker.start()
        with Admin(broker.address) as admin, open_wire(dialect, broker.port) as wire:
            assert wire.find("compacted", EARLIEST).offset == start
            assert [record.offset for record in read_records(wire, "compacted")] == [
                record.offset for record in found
            ]
            (result,) = admin.clean("compacted", wait=True)
            assert result.state == "done"
            assert describe(admin, "compacted").uncleanable_reason is None
        assert log_lines(broker, "uncleanable") == []
        broker.kill()
        broker.start()
        with open_wire(dialect, broker.port) as wire:
            assert wire.find("compacted", EARLIEST).offset == start


def test_records_of_a_compacted_topic_are_deleted_up_to_its_end(tmp_path: Path) -> None:
    """C013 with other offsets: inside a closed segment, at a border, at the end, beyond it."""
    with running_broker(configs=QUIET, folder=tmp_path) as broker, Admin(broker.address) as admin:
        configs = {"cleanup.policy": "compact", "file.delete.delay.ms": 200}
        admin.create_topic("ends", partitions=1, configs=configs)
        place = TopicPartition("ends", 0)
        with open_wire("kafka", broker.port) as wire:
            for number in range(60):
                record = (now_ms(), b"%d" % number, b"v", ())
                wire.produce("ends", build_batch([record]))
                if number % 10 == 9:
                    admin.roll("ends")
            for start, segments in ((15, 6), (20, 5), (59, 2), (60, 1)):
                assert admin.delete_records({place: start}) == {place: start}
                admin.clean("ends", wait=True)
                state = describe(admin, "ends")
                assert state.uncleanable_reason is None
                assert state.log_start_offset == start
                assert state.segment_count <= segments
                assert [each.offset for each in read_records(wire, "ends")] == [*range(start, 60)]
            with pytest.raises(OffsetOutOfRangeError):
                admin.delete_records({place: 61})
            assert wire.produce("ends", build_batch([(now_ms(), b"k", b"v", ())])).base_offset == 60


# ---- C015

FAR = 2147483658


def stopped_with_topic(folder: Path, configs: dict[str, object], topic: str) -> RunningBroker:
    """A broker that was started once and made a topic."""
    broker = RunningBroker(folder, {**SHORT_PERIODS})
    broker.start()
    with Admin(broker.address) as admin:
        admin.create_topic(topic, partitions=1, configs=configs)  # type: ignore[arg-type] # plain values
    broker.stop()
    return broker


def check_spans(folder: Path) -> None:
    """No batch and no index entry is more than 2^31-1 above the base of its segment."""
    for path in data_files(folder):
        base_offset = int(path.stem)
        entries = []
        index, time_index = path.with_suffix(".index"), path.with_suffix(".timeindex")
        if index.exists():
            entries += read_offset_index(index)
        if time_index.exists():
            entries += read_time_index(time_index)
        assert all(0 <= each.relative_offset <= INT32_MAX for each in entries), path
        batches = stored_batches_of(path)
        assert all(0 <= offset - base_offset <= INT32_MAX for offset in batches), path


def stored_batches_of(path: Path) -> list[int]:
    from seglog.protocol.records import iter_batches

    return [batch.header.last_offset for batch in iter_batches(path.read_bytes())]


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False], ids=["after a stop", "after a crash"])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_segment_that_spans_too_many_offsets_is_split(
    tmp_path: Path, policy: str, clean: bool
) -> None:
    """C015: base 0 holding offsets 0 and 2^31+10 without index files."""
    configs = {"cleanup.policy": policy, "retention.ms": -1, "min.cleanable.dirty.ratio": 0.001}
    broker = stopped_with_topic(tmp_path, configs, "wide")
    folder = broker.data_directory / "wide-0"
    empty_folder(folder)
    records = {0: [(T, b"a", b"first", ())], FAR: [(T + 1, b"b", b"second", ())]}
    write_segment(folder, 0, records.items())
    if not clean:
        (broker.data_directory / ".kafka_cleanshutdown").unlink()
    try:
        for _ in range(2):
            broker.start()
            with Admin(broker.address) as admin:
                for dialect in WIRES:
                    with open_wire(dialect, broker.port) as wire:
                        for asked, offset in ((0, 0), (1, FAR), (FAR, FAR)):
                            batches = wire.fetch("wide", asked).batches
                            assert batches[0].header.base_offset == offset
                        assert wire.find("wide", T + 1).offset == FAR
                if policy == "compact":
                    admin.roll("wide")
                    for _ in range(2):
                        (result,) = admin.clean("wide", wait=True)
                        assert result.state == "done"
                with open_wire("kafka", broker.port) as wire:
                    assert [each.offset for each in read_records(wire, "wide")] == [0, FAR]
                    assert wire.find("wide", LATEST).offset == FAR + 1
            assert broker.stop() == 0
            check_spans(folder)
        assert len(data_files(folder)) <= 4
    finally:
        if broker.is_running:
            broker.kill()


@pytest.mark.slow
def test_compaction_of_far_segments_keeps_them_apart(tmp_path: Path) -> None:
    """C015: segments based at 0, 2147483000 and 4294967000 with one live key each."""
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.001}
    broker = stopped_with_topic(tmp_path, configs, "far")
    folder = broker.data_directory / "far-0"
    empty_folder(folder)
    bases = (0, 2147483000, 4294967000)
    for base in bases:
        stale = [(T, b"same", b"%d" % base, ())]
        live = [(T + 1, b"live-%d" % base, b"v", ())]
        write_segment(folder, base, [(base, stale), (base + 700, live)])
    broker.start()
    try:
        with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
            for _ in range(3):
                record = (now_ms(), b"same", b"newest", ())
                wire.produce("far", build_batch([record]))
                admin.roll("far")
                (result,) = admin.clean("far", wait=True)
                assert result.state == "done", result
            assert describe(admin, "far").uncleanable_reason is None
            records = {each.key: each.offset for each in read_records(wire, "far")}
            newest = wire.find("far", LATEST).offset - 1
            assert records == {
                **{b"live-%d" % base: base + 700 for base in bases},
                b"same": newest,
            }
            eventually(lambda: not count_suffix(files_of(broker, "far"), ".deleted"))
            assert len(base_offsets(admin, "far")) <= 5
        broker.stop()
        check_spans(folder)
        assert {each.header.base_offset for each in stored_batches(folder)} >= {
            base + 700 for base in bases
        }
        broker.start()
        with open_wire("native", broker.port) as wire:
            assert {each.key: each.offset for each in read_records(wire, "far")} == records
        broker.stop()
    finally:
        if broker.is_running:
            broker.kill()


def test_empty_segments_do_not_pile_up(broker: RunningBroker, admin: Admin) -> None:
    """C015, SEG-4: every pass empties a segment; the next passes merge the empty ones."""
    configs = {"cleanup.policy": "compact", "file.delete.delay.ms": 0}
    admin.create_topic("piles", partitions=1, configs=configs)
    with open_wire("native", broker.port) as wire:
        for number in range(12):
            wire.produce("piles", build_batch([(now_ms(), b"k", b"%d" % number, ())]))
            admin.roll("piles")
            admin.clean("piles", wait=True)
        assert [each.value for each in read_records(wire, "piles")] == [b"11"]
        assert len(base_offsets(admin, "piles")) <= 3


# ---- retention.bytes.total and the disk guard


def test_a_limit_over_all_partitions_takes_the_oldest_segments(
    broker: RunningBroker, admin: Admin
) -> None:
    """retention.bytes.total: the bytes of the topic count, not those of a partition."""
    configs = {"segment.bytes": 10_000, "retention.bytes.total": 100_000}
    admin.create_topic("total", partitions=3, configs=configs)
    with open_wire("kafka", broker.port) as wire:
        stamp = now_ms() - 60_000
        for partition, size in ((1, 50_000), (0, 90_000), (2, 20_000)):
            for _ in range(size // 1000):
                stamp += 10
                wire.produce("total", sized_batch(1000, stamp), partition=partition)
        dry = admin.run_retention(["total"], dry_run=True)
        assert {each.reason for each in dry} == {"retention.bytes.total"}
        # 160,000 bytes, 60,000 too many: partition 1 has the oldest, all but its active segment.
        assert [(each.partition, each.size_bytes) for each in dry] == (
            [(0, 10_000)] * 2 + [(1, 10_000)] * 4
        )
        assert admin.run_retention(["total"]) == dry
        sizes = [describe(admin, "total", partition).size_bytes for partition in range(3)]
        assert sizes == [70_000, 10_000, 20_000]
        assert admin.run_retention(["total"]) == []
        offsets = [wire.find("total", EARLIEST, partition=each).offset for each in range(3)]
        assert offsets == [20, 40, 0]


@pytest.mark.slow
@pytest.mark.parametrize("dialect", WIRES)
def test_disk_guard_makes_room_then_refuses_then_recovers(dialect: str, tmp_path: Path) -> None:
    """log.dir.bytes.max: oldest segments of any topic go; what may not go stops produce only."""
    limit = 300_000
    configs = {**QUIET, "log.dir.bytes.max": limit}
    with (
        running_broker(configs=configs, folder=tmp_path) as broker,
        Admin(broker.address) as admin,
        open_wire(dialect, broker.port) as wire,
    ):
        admin.create_topics(
            [
                NewTopic("old", 1, -1, {"segment.bytes": "20000"}),
                NewTopic("new", 1, -1, {"segment.bytes": "20000"}),
                NewTopic("kept", 1, -1, {"cleanup.policy": "compact", "segment.bytes": "20000"}),
            ]
        )
        for age_ms, topic in ((60_000, "old"), (1_000, "new")):
            for _ in range(160):
                wire.produce(topic, sized_batch(1000, now_ms() - age_ms))
        # 320,000 bytes: the segment that is the oldest in the directory goes.
        eventually(lambda: wire.find("old", EARLIEST).offset == 20)
        assert wire.find("new", EARLIEST).offset == 0
        keys = itertools.count()

        def produce_kept() -> Produced:
            record = (now_ms(), b"%d" % next(keys), bytes(950), ())
            return wire.produce("kept", build_batch([record]))

        def fill_kept() -> ErrorCode:
            return produce_kept().error

        for _ in range(250):
            fill_kept()
        refused = eventually(fill_kept, until=lambda error: error != ErrorCode.NONE)
        assert refused == ErrorCode.KAFKA_STORAGE_ERROR
        answer = produce_kept()
        assert answer.message is None or "log.dir.bytes.max" in answer.message
        assert wire.find("new", EARLIEST).offset == 140
        # Reads and deletes go on.
        assert read_records(wire, "new")
        end = wire.find("kept", LATEST).offset
        assert wire.delete_before("kept", end)[0] == ErrorCode.NONE
        admin.roll("kept")
        admin.clean("kept", wait=True)
        admin.run_retention()
        eventually(fill_kept, until=lambda error: error == ErrorCode.NONE)
        assert wire.find("kept", LATEST).offset == end + 1


@pytest.mark.slow
def test_free_space_below_the_mark_refuses_produce_and_says_so(tmp_path: Path) -> None:
    """log.dir.free.bytes.min, more than any disk has: a retriable error that names the key."""
    with running_broker(configs=QUIET, folder=tmp_path) as broker, Admin(broker.address) as admin:
        admin.create_topic("t", partitions=1)
        with open_wire("kafka", broker.port) as wire:
            assert wire.produce("t", sized_batch(100)).error == ErrorCode.NONE
        broker.stop()
        again = RunningBroker(tmp_path, {**QUIET, "log.dir.free.bytes.min": 1 << 60})
        again.start()
        try:
            with open_wire("kafka", again.port) as wire:
                refused = eventually(
                    lambda: wire.produce("t", sized_batch(100)),
                    until=lambda answer: answer.error != ErrorCode.NONE,
                )
                assert refused.error == ErrorCode.KAFKA_STORAGE_ERROR
                assert "log.dir.free.bytes.min" in (refused.message or "")
                assert read_records(wire, "t")
            assert again.stop() == 0
            # Too little space never keeps the broker from starting.
            again.start()
            assert again.stop() == 0
        finally:
            if again.is_running:
                again.kill()
            broker.start()

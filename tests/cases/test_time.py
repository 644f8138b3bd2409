"""Field cases about time: wrong units, old and odd timestamps, lookups."""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from seglog.clients import Admin, Consumer
from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol.compression import Codec
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records import build_batch
from seglog.protocol.types import TopicPartition
from support.batches import T, with_header
from support.real_broker import (
    SHORT_PERIODS,
    base_offsets,
    describe,
    files_of,
    free_port,
    metric,
    scrape,
)
from support.wires import WIRES, open_wire, read_batches, read_records

DAY_MS = 86_400_000
EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3


class MeasuredBroker:
    """A broker with its metrics and an admin client."""

    def __init__(self, broker: RunningBroker, metrics_port: int, admin: Admin) -> None:
        self.process = broker
        self.port = broker.port
        self.admin = admin
        self._metrics_port = metrics_port

    def metric(self, name: str, **labels: str) -> float:
        """One series."""
        return metric(scrape(self._metrics_port), name, **labels)

    def descriptors(self) -> int:
        """Open descriptors of the process."""
        return len(os.listdir(f"/proc/{self.process.process_id}/fd"))


@pytest.fixture(scope="module")
def broker() -> Iterator[MeasuredBroker]:
    port = free_port()
    configs = {**SHORT_PERIODS, "metrics.listener": f"127.0.0.1:{port}"}
    with running_broker(configs=configs) as process, Admin(process.address) as admin:
        yield MeasuredBroker(process, port, admin)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch(*timestamps: int, value: bytes = b"v", codec: Codec = Codec.NONE) -> bytearray:
    return build_batch([(each, None, value, ()) for each in timestamps], codec=codec)


# ---- C002


@pytest.mark.parametrize("dialect", WIRES)
def test_seconds_for_milliseconds_are_counted_where_they_are_accepted(
    broker: MeasuredBroker, dialect: str
) -> None:
    """C002 (a): records of 1970 are stored, expire at once as documented, and are counted."""
    topic = f"seconds-{dialect}"
    configs = {"retention.ms": 604800000, "segment.bytes": 65536}
    broker.admin.create_topic(topic, partitions=1, configs=configs)
    before = broker.metric("seglog_expired_records_total", topic=topic)
    with open_wire(dialect, broker.port) as wire:
        for _ in range(200):
            answer = wire.produce(topic, batch(int(time.time()), value=b"v" * 1000))
            assert answer.error == ErrorCode.NONE
        broker.admin.run_retention([topic])
        broker.admin.run_retention([topic])
        assert wire.find(topic, EARLIEST).offset == wire.find(topic, LATEST).offset == 200
    assert broker.metric("seglog_expired_records_total", topic=topic) - before == 200


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("records_per_batch", [1, 200])
def test_seconds_for_milliseconds_are_refused_where_a_bound_is_set(
    broker: MeasuredBroker, dialect: str, records_per_batch: int
) -> None:
    """C002 (b): error 32 with the index of every record; nothing stored, connection usable."""
    topic = f"bounded-{dialect}-{records_per_batch}"
    configs = {
        "retention.ms": 604800000,
        "segment.bytes": 1048576,
        "message.timestamp.before.max.ms": DAY_MS,
    }
    broker.admin.create_topic(topic, partitions=1, configs=configs)
    with open_wire(dialect, broker.port) as wire:
        for _ in range(200 // records_per_batch):
            stamps = [int(time.time())] * records_per_batch
            answer = wire.produce(topic, batch(*stamps, value=b"v" * 1000))
            assert answer.error == ErrorCode.INVALID_TIMESTAMP == 32
            assert [index for index, _ in answer.record_errors] == list(range(records_per_batch))
            assert all(text for _, text in answer.record_errors)
            assert answer.message
        assert describe(broker.admin, topic).size_bytes == 0
        assert wire.produce(topic, batch(now_ms())).base_offset == 0


@pytest.mark.parametrize("dialect", WIRES)
def test_only_the_wrong_records_of_a_batch_are_named(broker: MeasuredBroker, dialect: str) -> None:
    """C002 (b): two of four records are too old; the batch is refused and names those two."""
    topic = f"some-{dialect}"
    configs = {"message.timestamp.before.max.ms": DAY_MS}
    broker.admin.create_topic(topic, partitions=1, configs=configs)
    now = now_ms()
    for codec in (Codec.NONE, Codec.GZIP, Codec.ZSTD):
        bad = batch(now, now // 1000, now - DAY_MS + 60_000, now - DAY_MS - 60_000, codec=codec)
        with open_wire(dialect, broker.port) as wire:
            answer = wire.produce(topic, bad)
            assert answer.error == ErrorCode.INVALID_TIMESTAMP
            assert [index for index, _ in answer.record_errors] == [1, 3]
            assert wire.find(topic, LATEST).offset == 0


@pytest.mark.parametrize("dialect", WIRES)
def test_broker_time_replaces_seconds(broker: MeasuredBroker, dialect: str) -> None:
    """C002 (c): with LogAppendTime all 200 stay and carry the broker's time."""
    topic = f"append-time-{dialect}"
    configs = {
        "retention.ms": 604800000,
        "segment.bytes": 65536,
        "message.timestamp.type": "LogAppendTime",
    }
    broker.admin.create_topic(topic, partitions=1, configs=configs)
    start = now_ms()
    with open_wire(dialect, broker.port) as wire:
        for _ in range(200):
            answer = wire.produce(topic, batch(int(time.time()), value=b"v" * 1000))
            assert answer.log_append_time_ms >= start
        broker.admin.run_retention([topic])
        broker.admin.run_retention([topic])
        records = read_records(wire, topic)
    assert [record.offset for record in records] == list(range(200))
    assert all(start <= record.timestamp_ms <= now_ms() for record in records)


@pytest.mark.parametrize("dialect", WIRES)
def test_microseconds_for_milliseconds_are_refused(broker: MeasuredBroker, dialect: str) -> None:
    """The same mistake the other way: far in the future, immortal if it were stored."""
    topic = f"micro-{dialect}"
    broker.admin.create_topic(topic, partitions=1)
    with open_wire(dialect, broker.port) as wire:
        for stamp in (now_ms() * 1000, now_ms() * 1_000_000, 2**63 - 1):
            answer = wire.produce(topic, batch(stamp))
            assert answer.error == ErrorCode.INVALID_TIMESTAMP, stamp
        assert wire.find(topic, LATEST).offset == 0


def test_future_records_are_counted_and_logged_where_they_are_accepted(
    broker: MeasuredBroker,
) -> None:
    """With the bound lifted they are stored: a counter and a warning show it."""
    topic = "future"
    configs = {"message.timestamp.after.max.ms": 2**63 - 1}
    broker.admin.create_topic(topic, partitions=1, configs=configs)
    with open_wire("kafka", broker.port) as wire:
        assert wire.produce(topic, batch(now_ms() * 1000, now_ms() * 1000)).base_offset == 0
    assert broker.metric("seglog_future_records_total", topic=topic) == 2
    assert "event=odd-timestamps finding=future partition=future-0" in (
        broker.process.log_file.read_text()
    )


# ---- C003


def stamps_of(pattern: str) -> list[int]:
    now = now_ms()
    if pattern == "all old":
        return [now - 30 * DAY_MS] * 500
    if pattern == "ascending days":
        return [now - (499 - day) * DAY_MS for day in range(500)]
    if pattern == "descending days":
        return [now - day * DAY_MS for day in range(500)]
    assert pattern == "alternating"
    return [now if number % 2 else now - 30 * DAY_MS for number in range(500)]


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("segment_ms", [3600000, 1000])
@pytest.mark.parametrize("pattern", ["all old", "ascending days", "descending days", "alternating"])
def test_old_timestamps_do_not_roll_a_segment_for_each_message(
    broker: MeasuredBroker, dialect: str, segment_ms: int, pattern: str
) -> None:
    """C003: at most 2 segments where time does not ascend, else one a second (documented)."""
    topic = f"rolls-{dialect}-{segment_ms}-{pattern.replace(' ', '-')}"
    configs = {"segment.ms": segment_ms, "segment.bytes": 1 << 30, "retention.ms": -1}
    broker.admin.create_topic(topic, partitions=1, configs=configs)
    descriptors = broker.descriptors()
    stamps = stamps_of(pattern)
    start = time.monotonic()
    with open_wire(dialect, broker.port) as wire:
        for number, stamp in enumerate(stamps):
            answer = wire.produce(topic, batch(stamp, value=b"%d" % number))
            assert answer.error == ErrorCode.NONE
        seconds = time.monotonic() - start
        records = read_records(wire, topic)
    assert [record.timestamp_ms for record in records] == stamps
    assert [record.value for record in records] == [b"%d" % number for number in range(500)]
    segments = len(base_offsets(broker.admin, topic))
    assert segments <= 2 + (int(seconds) if pattern == "ascending days" else 0)
    assert broker.descriptors() <= descriptors + 10


@pytest.mark.slow
def test_ascending_days_keep_their_order_over_a_restart(tmp_path: Path) -> None:
    """C003 B, stopped in the middle: the minimum interval between rolls survives a restart."""
    stamps = stamps_of("ascending days")
    with running_broker(folder=tmp_path) as broker:
        with Admin(broker.address) as admin:
            configs = {"segment.ms": 3600000, "retention.ms": -1}
            admin.create_topic("days", partitions=1, configs=configs)
        for part in (stamps[:250], stamps[250:]):
            with open_wire("kafka", broker.port) as wire:
                for stamp in part:
                    wire.produce("days", batch(stamp))
            if part is not stamps[250:]:
                broker.stop()
                broker.start()
        with Admin(broker.address) as admin, open_wire("native", broker.port) as wire:
            assert len(base_offsets(admin, "days")) <= 6
            assert [record.timestamp_ms for record in read_records(wire, "days")] == stamps


# ---- C005


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("together", [True, False], ids=["one batch", "one batch a record"])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4])
def test_lookup_between_timestamps_gives_the_later_record(
    broker: MeasuredBroker, dialect: str, together: bool, codec: Codec
) -> None:
    """C005, first topic: stamps 2, 4, 6, 8; past the end there is nothing."""
    topic = f"lookup-{dialect}-{together}-{codec.name}"
    broker.admin.create_topic(topic, partitions=1, configs={"retention.ms": -1})
    with open_wire(dialect, broker.port) as wire:
        assert wire.find(topic, 0).offset == -1
        assert wire.find(topic, MAX_TIMESTAMP).offset == -1
        for stamps in [(2, 4, 6, 8)] if together else [(2,), (4,), (6,), (8,)]:
            wire.produce(topic, batch(*stamps, codec=codec))
        found = [wire.find(topic, stamp) for stamp in range(10)]
        assert [each.offset for each in found] == [0, 0, 0, 1, 1, 2, 2, 3, 3, -1]
        assert [each.timestamp_ms for each in found] == [2, 2, 2, 4, 4, 6, 6, 8, 8, -1]
        assert wire.find(topic, EARLIEST).offset == 0
        assert wire.find(topic, LATEST).offset == 4
        assert wire.find(topic, MAX_TIMESTAMP)[1:] == (3, 8)
        # Deleted records are not found, in the middle of a batch either.
        assert wire.delete_before(topic, 2) == (ErrorCode.NONE, 2)
        found = [wire.find(topic, stamp) for stamp in range(10)]
        assert [each.offset for each in found] == [2, 2, 2, 2, 2, 2, 2, 3, 3, -1]
        assert wire.find(topic, EARLIEST).offset == 2
    place = TopicPartition(topic, 0)
    answers = broker.admin.list_offsets({place: 9})
    assert answers == {place: None}


@pytest.mark.parametrize(
    "layout", [pytest.param("singles", marks=pytest.mark.slow), "batches", "rolled"]
)
def test_lookup_is_exact_to_the_record_in_a_long_log(broker: MeasuredBroker, layout: str) -> None:
    """C005, second topic: T+10*i; 200 random probes just at, before and behind a record."""
    topic = f"long-{layout}"
    configs = {"retention.ms": -1, "segment.bytes": 65536 if layout == "rolled" else 1 << 30}
    broker.admin.create_topic(topic, partitions=1, configs=configs)
    size = 1 if layout == "singles" else 125
    codec = Codec.ZSTD if layout == "batches" else Codec.NONE
    with open_wire("native", broker.port) as native, open_wire("kafka", broker.port) as kafka:
        for first in range(0, 10_000, size):
            stamps = [T + 10 * number for number in range(first, first + size)]
            native.produce(topic, batch(*stamps, value=b"v" * 100, codec=codec))
        probes = [0, 9_999, *random.Random(5).sample(range(10_000), 198)]
        for wire in (native, kafka):
            for i in probes:
                assert wire.find(topic, T + 10 * i)[1:] == (i, T + 10 * i)
                assert wire.find(topic, T + 10 * i - 1)[1:] == (i, T + 10 * i)
                following = (i + 1, T + 10 * i + 10) if i < 9_999 else (-1, -1)
                assert wire.find(topic, T + 10 * i + 1)[1:] == following
            assert wire.find(topic, MAX_TIMESTAMP)[1:] == (9_999, T + 99_990)
    with Consumer(broker.process.address, topic) as consumer:
        place = TopicPartition(topic, 0)
        assert consumer.offsets_for_times({place: T + 99_991}) == {place: None}
        found = consumer.offsets_for_times({place: T + 5})[place]
        assert found is not None
        assert found.offset == 1


@pytest.mark.parametrize("dialect", WIRES)
def test_lookup_with_timestamps_out_of_order_gives_the_first_in_the_log(
    broker: MeasuredBroker, dialect: str
) -> None:
    """LIST-5: the first record by offset that is not older, wherever the greatest stamp lies."""
    topic = f"unordered-{dialect}"
    configs = {"retention.ms": -1, "segment.bytes": 20_000, "index.interval.bytes": 100}
    broker.admin.create_topic(topic, partitions=1, configs=configs)
    generator = random.Random(11)
    stamps = [T + generator.randrange(1_000) for _ in range(1_500)]
    with open_wire(dialect, broker.port) as wire:
        for first in range(0, 1_500, 15):
            wire.produce(topic, batch(*stamps[first : first + 15]))
        for target in [T - 1, T, T + 1_000, *generator.sample(range(T, T + 1_000), 60)]:
            offset = next((i for i, stamp in enumerate(stamps) if stamp >= target), -1)
            expected = (offset, stamps[offset] if offset >= 0 else -1)
            assert wire.find(topic, target)[1:] == expected
        greatest = max(stamps)
        assert wire.find(topic, MAX_TIMESTAMP)[1:] == (stamps.index(greatest), greatest)


# ---- C006


@pytest.mark.slow
@pytest.mark.parametrize("claim", [-1, 0, 1, 2**62])
@pytest.mark.parametrize("dialect", WIRES)
def test_batches_with_a_wrong_max_timestamp_are_put_right(
    dialect: str, claim: int, tmp_path: Path
) -> None:
    """C006: header bytes 35 to 42 lie; lookups, retention and a restart go by the records."""
    with running_broker(configs=SHORT_PERIODS, folder=tmp_path) as broker:
        with Admin(broker.address) as admin:
            admin.create_topic("lying", partitions=1, configs={"retention.ms": 3600000})
            t0 = now_ms() - 1000
            with open_wire(dialect, broker.port) as wire:
                for number in range(1, 11):
                    stamps = [t0 + number] * (3 if number == 4 else 1)
                    codec = Codec.GZIP if number % 2 else Codec.NONE
                    lying = with_header(batch(*stamps, codec=codec), max_timestamp=claim)
                    assert wire.produce("lying", lying).error == ErrorCode.NONE
                # Records 3 to 5 are in one batch.
                assert wire.find("lying", t0 + 5)[1:] == (6, t0 + 5)
            assert admin.run_retention(["lying"]) == []
        broker.stop()
        broker.start()
        with Admin(broker.address) as admin, open_wire(dialect, broker.port) as wire:
            assert wire.find("lying", t0 + 5)[1:] == (6, t0 + 5)
            assert wire.find("lying", t0 + 11).offset == -1
            for number, stored in enumerate(read_batches(wire, "lying"), start=1):
                stored.check()
                assert stored.header.max_timestamp == t0 + number
            assert len(read_records(wire, "lying")) == 12
            assert admin.run_retention(["lying"]) == []
            # Nor are they kept for ever.
            admin.alter_configs("topic", "lying", {"retention.ms": 1})
            admin.run_retention(["lying"])
            assert describe(admin, "lying").log_start_offset == 12
            assert [name for name in files_of(broker, "lying") if name.endswith(".log")] == [
                "00000000000000000012.log"
            ]

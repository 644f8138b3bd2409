"""Field cases about compaction, on a real broker."""

import importlib.util
import itertools
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from seglog.clients import Admin, Consumer, InvalidRecordError, Producer
from seglog.clients.testing import RunningBroker, running_broker
from seglog.config.log_config import LogConfig
from seglog.protocol.compression import Codec
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records import build_batch
from seglog.protocol.records.record import Record
from seglog.protocol.types import IsolationLevel, TopicPartition
from support.eventually import eventually
from support.log_builder import append, end_transaction
from support.processor_time import in_time
from support.real_broker import (
    SHORT_PERIODS,
    base_offsets,
    describe,
    free_port,
    metric,
    scrape,
    wait_for_line,
)
from support.stopped_logs import stored_batches
from support.wires import WIRES, Wire, open_wire, read_batches, read_records

LATEST = -1
BY_HAND = {**SHORT_PERIODS, "log.cleaner.backoff.ms": 3_600_000}
"""The cleaner works when a test asks for it."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def send(
    wire: Wire, topic: str, *pairs: tuple[bytes | None, bytes | None], codec: Codec = Codec.NONE
) -> int:
    """Append one batch; returns its first offset."""
    batch = build_batch([(now_ms(), key, value, ()) for key, value in pairs], codec=codec)
    answer = wire.produce(topic, batch)
    assert answer.error == ErrorCode.NONE, answer
    return answer.base_offset


def clean(admin: Admin, topic: str) -> None:
    (result,) = admin.clean(topic, wait=True)
    assert result.state == "done", result


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def broker(metrics_port: int) -> Iterator[RunningBroker]:
    configs = {**BY_HAND, "metrics.listener": f"127.0.0.1:{metrics_port}"}
    with running_broker(configs=configs) as process:
        yield process


@pytest.fixture(scope="module")
def admin(broker: RunningBroker) -> Iterator[Admin]:
    with Admin(broker.address) as client:
        yield client


# ---- C017


def tombstones_and_values(records: Sequence[Record]) -> tuple[set[bytes], set[bytes]]:
    """Keys that have a marker, and keys that have a value."""
    keyed = [(record.key, record.value) for record in records if record.key is not None]
    return {key for key, value in keyed if value is None}, {
        key for key, value in keyed if value is not None
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("restart", "codec"),
    [(False, Codec.NONE), (True, Codec.ZSTD)],
    ids=["", "compressed, restarted in between"],
)
@pytest.mark.parametrize("delete_retention_ms", [1000, 60000])
def test_delete_markers_live_as_long_as_they_should(
    tmp_path: Path, delete_retention_ms: int, restart: bool, codec: Codec
) -> None:
    """C017: their clock starts with the first pass and does not restart with each."""
    with running_broker(configs=BY_HAND, folder=tmp_path) as broker:
        configs = {
            "cleanup.policy": "compact",
            "segment.ms": 200,
            "min.cleanable.dirty.ratio": 0.01,
            "delete.retention.ms": delete_retention_ms,
        }
        deleted = {b"k%d" % number for number in range(1, 51)}
        alive = {b"k%d" % number for number in range(51, 101)}
        admin = Admin(broker.address)
        admin.create_topic("markers", partitions=1, configs=configs)
        with open_wire("kafka", broker.port) as wire:
            for number in range(1, 101):
                send(wire, "markers", (b"k%d" % number, b"value"), codec=codec)
            for number in range(1, 51, 10):
                pairs = [(b"k%d" % each, None) for each in range(number, number + 10)]
                send(wire, "markers", *pairs, codec=codec)
            admin.roll("markers")
            clean(admin, "markers")
            first_pass = time.monotonic()
            eventually(lambda: time.monotonic() - first_pass >= 0.2)
            clean(admin, "markers")
            assert tombstones_and_values(read_records(wire, "markers")) == (deleted, alive)
        if restart:
            broker.stop()
            broker.start()
        eventually(lambda: time.monotonic() - first_pass >= 1.7)
        with open_wire("native", broker.port) as wire:
            send(wire, "markers", (b"unrelated", b"value"))
            admin.roll("markers")
            clean(admin, "markers")
            clean(admin, "markers")
            expected = set() if delete_retention_ms == 1000 else deleted
            found = read_records(wire, "markers")
            assert tombstones_and_values(found) == (expected, alive | {b"unrelated"})
            for _ in range(10):
                clean(admin, "markers")
            assert read_records(wire, "markers") == found
        admin.close()


def test_a_marker_for_a_key_that_never_was_goes_too(broker: RunningBroker, admin: Admin) -> None:
    """C017, another kind: markers only, and a value written after its marker."""
    configs = {"cleanup.policy": "compact", "delete.retention.ms": 0}
    admin.create_topic("only-markers", partitions=1, configs=configs)
    with open_wire("native", broker.port) as wire:
        send(wire, "only-markers", (b"never", None), (b"back", None))
        send(wire, "only-markers", (b"back", b"again"))
        for _ in range(2):
            admin.roll("only-markers")
            clean(admin, "only-markers")
            send(wire, "only-markers", (b"other", b"value"))
        admin.roll("only-markers")
        clean(admin, "only-markers")
        assert tombstones_and_values(read_records(wire, "only-markers")) == (
            set(), {b"back", b"other"},
        )  # fmt: skip


# ---- C018


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
@pytest.mark.parametrize("dialect", WIRES)
def test_a_record_without_key_is_refused_by_name(
    broker: RunningBroker, admin: Admin, dialect: str, codec: Codec
) -> None:
    """C018, topic X: 87 naming index 1, nothing stored, the connection goes on."""
    topic = f"keyed-{dialect}-{codec.name}"
    admin.create_topic(topic, partitions=1, configs={"cleanup.policy": "compact"})
    with open_wire(dialect, broker.port) as wire:
        records = [(now_ms(), key, b"v", ()) for key in (b"a", None, b"b")]
        answer = wire.produce(topic, build_batch(records, codec=codec))
        assert answer.error == ErrorCode.INVALID_RECORD == 87
        assert [index for index, _ in answer.record_errors] == [1]
        assert answer.message
        assert "key" in answer.record_errors[0][1] + answer.message
        assert wire.find(topic, LATEST).offset == 0
        assert describe(admin, topic).size_bytes == 0
        assert send(wire, topic, (b"c", b"v"), codec=codec) == 0
        # An empty key is a key.
        assert send(wire, topic, (b"", b"v"), codec=codec) == 1


def test_the_client_raises_what_the_broker_says(broker: RunningBroker, admin: Admin) -> None:
    """C018: a specific exception with the text, and the producer goes on."""
    admin.create_topic("client-keyed", partitions=1, configs={"cleanup.policy": "compact"})
    with Producer(broker.address) as producer:
        future = producer.send("client-keyed", b"v")
        with pytest.raises(InvalidRecordError, match="key"):
            future.result(10)
        assert producer.send("client-keyed", b"v", key=b"k").result(10).offset == 0


def test_keyless_records_of_an_older_policy_follow_one_rule(
    broker: RunningBroker, admin: Admin
) -> None:
    """C018, topic Y: keyless ones are dropped (documented, KEEP-4), never folded into one."""
    admin.create_topic("switched", partitions=1)
    with open_wire("kafka", broker.port) as wire:
        for number in range(10):
            send(wire, "switched", (None, b"keyless-%d" % number), (b"same", b"%d" % number))
        admin.alter_configs("topic", "switched", {"cleanup.policy": "compact"})
        for _ in range(2):
            admin.roll("switched")
            clean(admin, "switched")
        found = [(record.key, record.value) for record in read_records(wire, "switched")]
    assert found == [(b"same", b"9")]
    assert describe(admin, "switched").uncleanable_reason is None


# ---- C021


def with_transactions(
    broker: RunningBroker, topic: str, config: LogConfig, plan: Sequence[bool], seed: int
) -> None:
    """Fill a stopped broker's log with transactions in turn, of producers P1 to P3.

    Batches of two transactions at a time are interleaved, as those of producers that work side by
    side are.
    """
    from seglog.broker.storage.files.file_system import OsFileSystem
    from seglog.broker.storage.log.loader import load_log

    folder = broker.data_directory / f"{topic}-0"
    log = load_log(
        OsFileSystem(), str(folder), TopicPartition(topic, 0), config,
        now_ms=now_ms(), clean_shutdown=True,
    )  # fmt: skip
    generator = random.Random(seed)
    sequences = {1: 0, 2: 0, 3: 0}
    numbers = list(range(len(plan)))
    counter = itertools.count()
    for first in range(0, len(plan), 2):
        open_now = dict.fromkeys(numbers[first : first + 2], 10)
        while open_now:
            number = generator.choice(list(open_now))
            producer = number % 3 + 1
            keys = [b"k%d" % generator.randrange(10) for _ in range(2)]
            values = [
                (b"%s-%d" % (b"commit" if plan[number] else b"abort", next(counter))).ljust(200)
                for _ in range(2)
            ]
            append(
                log, values, keys=keys, producer_id=producer, transactional=True,
                sequence=sequences[producer], timestamps_ms=now_ms(), now_ms=now_ms(),
            )  # fmt: skip
            sequences[producer] += 2
            open_now[number] -= 1
            if open_now[number] == 0:
                del open_now[number]
                end_transaction(log, producer, commit=plan[number], now_ms=now_ms())
    log.close()


def committed_view(broker: RunningBroker, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """What a read_committed consumer gets."""
    with Consumer(
        broker.address, topic, start="earliest", stop_at_end=True, isolation="read_committed"
    ) as consumer:
        return [(record.key, record.value) for record in consumer]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_compaction_changes_nothing_that_read_committed_sees(tmp_path: Path, seed: int) -> None:
    """C021: 15 transactions of 20 records, some over a roll; 3 passes; markers survive as due."""
    plan = [number % 3 != 1 for number in range(15)]  # P1 commit, P2 abort, P3 commit
    if seed:
        plan = [random.Random(seed).random() < 0.5 for _ in range(15)]
    configs = {
        "cleanup.policy": "compact",
        "segment.bytes": 4096,
        "delete.retention.ms": 0,
        "min.cleanable.dirty.ratio": 0.001,
        "file.delete.delay.ms": 0,
    }
    with running_broker(configs=BY_HAND, folder=tmp_path) as broker:
        with Admin(broker.address) as admin:
            admin.create_topic("tx", partitions=1, configs=configs)
        broker.stop()
        config = replace(LogConfig(), cleanup_policy=frozenset({"compact"}), segment_bytes=4096)
        with_transactions(broker, "tx", config, plan, seed)
        broker.start()
        before = committed_view(broker, "tx")
        assert len(before) == 20 * sum(plan)
        assert all(value is not None and value.startswith(b"commit") for _, value in before)
        for _ in range(3):
            with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
                assert len(base_offsets(admin, "tx")) > 1
                admin.roll("tx")
                clean(admin, "tx")
                state = describe(admin, "tx")
                assert state.uncleanable_reason is None
                assert state.last_stable_offset == state.log_end_offset
                committed = IsolationLevel.READ_COMMITTED
                end = wire.find("tx", LATEST, isolation=committed).offset
                assert end == wire.find("tx", LATEST).offset
            after = committed_view(broker, "tx")
            assert dict(after) == dict(before)
            assert [each for each in before if each in set(after)] == after
            broker.stop()
            broker.start()
        with Admin(broker.address) as admin:
            state = describe(admin, "tx")
            assert state.last_stable_offset == state.log_end_offset
        assert committed_view(broker, "tx") == after
        broker.kill()
        broker.start()
        assert committed_view(broker, "tx") == after
    data = stored_batches(broker.data_directory / "tx-0")
    values = {
        record.value for batch in data if not batch.header.is_control for record in batch.records()
    }
    assert not any(value.startswith(b"abort") for value in values if value)


# ---- C022


def make_hole(wire: Wire, admin: Admin, topic: str, size: int) -> None:
    """Offsets 0-99, of which 80-99 are compacted away, and 100-199 behind them."""

    def write(keys: Sequence[bytes]) -> None:
        for first in range(0, len(keys), size):
            send(wire, topic, *((key, b"v" * 50) for key in keys[first : first + size]))

    holes = [b"hole-%d" % number for number in range(20)]
    write([b"first-%d" % number for number in range(80)] + holes)
    admin.roll(topic)
    write([b"second-%d" % number for number in range(40)] + holes)
    write([b"third-%d" % number for number in range(40)])
    admin.roll(topic)
    clean(admin, topic)


@pytest.fixture(scope="module", params=["apart", "merged"])
def layout(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture(scope="module", params=[1, 10, 100], ids=lambda size: f"{size} a batch")
def holed(broker: RunningBroker, admin: Admin, layout: str, request: pytest.FixtureRequest) -> str:
    """A topic with the hole; its segments lie apart, or were merged to one."""
    size: int = request.param
    topic = f"hole-{layout}-{size}"
    configs = {"cleanup.policy": "compact", "segment.bytes": 1 << 30}
    admin.create_topic(topic, partitions=1, configs=configs)
    if layout == "apart":
        # Smaller than two of them together.
        admin.alter_configs("topic", topic, {"segment.bytes": 15_000})
    with open_wire("native", broker.port) as wire:
        make_hole(wire, admin, topic, size)
        offsets = [record.offset for record in read_records(wire, topic)]
    assert offsets == [*range(80), *range(100, 200)]
    return topic


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("partition_max_bytes", [1, 1 << 20])
def test_every_offset_before_and_in_a_hole_gets_an_answer(
    broker: RunningBroker, holed: str, dialect: str, partition_max_bytes: int
) -> None:
    """C022: a batch that reaches the asked offset, for each of 200 offsets."""
    with open_wire(dialect, broker.port) as wire:
        for offset in range(200):
            answer = wire.fetch(holed, offset, partition_max_bytes=partition_max_bytes)
            assert answer.error == ErrorCode.NONE
            assert any(batch.header.last_offset >= offset for batch in answer.batches), offset
        records = read_records(wire, holed, start=85)
        assert [record.offset for record in records] == [*range(100, 200)]


def test_a_reader_parked_in_the_hole_goes_on_at_once(broker: RunningBroker, holed: str) -> None:
    """C022: the bundled client, from 85: 100 next, in under a second, and up to 199."""
    with Consumer(broker.address) as consumer:
        place = TopicPartition(holed, 0)
        start = time.monotonic()
        consumer.subscribe({place: 85})
        first = consumer.read(max_records=1, timeout=5)
        assert in_time(time.monotonic() - start, 1)
        assert [record.offset for record in first] == [100]
        rest = [record.offset for record in consumer.until_end()]
        assert rest == [*range(101, 200)]


@pytest.mark.skipif(importlib.util.find_spec("kafka") is None, reason="kafka-python is not there")
def test_kafka_python_parked_in_the_hole_goes_on_at_once(broker: RunningBroker, holed: str) -> None:
    """C022 with a client that exists already."""
    from kafka import KafkaConsumer
    from kafka import TopicPartition as Place

    consumer = KafkaConsumer(bootstrap_servers=broker.address, fetch_max_wait_ms=100)
    try:
        place = Place(holed, 0)
        consumer.assign([place])
        consumer.seek(place, 85)
        start = time.monotonic()
        offsets = [next(consumer).offset for _ in range(100)]
        assert in_time(time.monotonic() - start, 1)
    finally:
        consumer.close()
    assert offsets == [*range(100, 200)]


@pytest.mark.skipif(importlib.util.find_spec("aiokafka") is None, reason="aiokafka is not there")
async def test_aiokafka_parked_in_the_hole_goes_on_at_once(
    broker: RunningBroker, holed: str
) -> None:
    """C022 with a client that exists already."""
    from aiokafka import AIOKafkaConsumer
    from aiokafka import TopicPartition as Place

    consumer = AIOKafkaConsumer(bootstrap_servers=broker.address)
    await consumer.start()
    try:
        place = Place(holed, 0)
        consumer.assign([place])
        consumer.seek(place, 85)
        start = time.monotonic()
        offsets = [(await consumer.getone()).offset for _ in range(100)]
        assert in_time(time.monotonic() - start, 1)
    finally:
        await consumer.stop()
    assert offsets == [*range(100, 200)]


def test_readers_pass_a_log_that_was_compacted_to_nothing(
    broker: RunningBroker, admin: Admin
) -> None:
    """C022, another kind: only the newest segment has survivors, everything before is a hole."""
    configs = {"cleanup.policy": "compact"}
    admin.create_topic("hollow", partitions=1, configs=configs)
    with open_wire("kafka", broker.port) as wire:
        for _ in range(5):
            for _ in range(20):
                send(wire, "hollow", (b"same", b"v"))
            admin.roll("hollow")
        clean(admin, "hollow")
        for offset in range(100):
            answer = wire.fetch("hollow", offset, partition_max_bytes=1)
            assert answer.batches[0].header.last_offset == 99
        batches = read_batches(wire, "hollow")
        assert [batch.header.last_offset for batch in batches] == [99]


# ---- C024


@pytest.mark.slow
def test_a_quiet_topic_is_compacted_when_its_lag_is_over(tmp_path: Path) -> None:
    """C024: within 2 s, a roll and a cleaner interval; without the bound it waits (documented)."""
    port = free_port()
    configs = {**SHORT_PERIODS, "metrics.listener": f"127.0.0.1:{port}"}
    topic_configs = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": 0.9,
        "segment.ms": 86_400_000,
        "segment.bytes": 1 << 30,
    }
    with (
        running_broker(configs=configs, folder=tmp_path) as broker,
        Admin(broker.address) as admin,
        open_wire("kafka", broker.port) as wire,
    ):
        admin.create_topic("control", partitions=1, configs=topic_configs)
        admin.create_topic("quiet", partitions=1, configs=topic_configs)
        for topic in ("control", "quiet"):
            for first in range(0, 1000, 100):
                pairs = [(b"key-%d" % each, b"old") for each in range(first, first + 100)]
                send(wire, topic, *pairs)
            admin.roll(topic)
            clean(admin, topic)
        admin.alter_configs("topic", "quiet", {"max.compaction.lag.ms": 2000})
        for topic in ("control", "quiet"):
            send(wire, topic, (b"key-7", b"new"))
        start = time.monotonic()

        def values(topic: str) -> list[bytes | None]:
            found = read_records(wire, topic)
            return [record.value for record in found if record.key == b"key-7"]

        eventually(lambda: values("quiet") == [b"new"], timeout=4)
        assert time.monotonic() - start > 1.5
        assert len(read_records(wire, "quiet")) == 1000
        text = scrape(port)
        assert metric(text, "kafka_log_logcleaner_max_compaction_delay_secs") < 2
        assert metric(text, "seglog_log_compaction_overdue_seconds", topic="quiet") < 2
        eventually(lambda: time.monotonic() - start > 6)
        assert values("control") == [b"old", b"new"]


@pytest.mark.slow
def test_a_log_that_cannot_be_cleaned_is_shown_with_its_reason(tmp_path: Path) -> None:
    """CLN-8: in the metrics and in the description; others are cleaned, and it is served."""
    port = free_port()
    configs = {**SHORT_PERIODS, "metrics.listener": f"127.0.0.1:{port}"}
    topic_configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01}
    with running_broker(configs=configs, folder=tmp_path) as broker:
        with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
            for topic in ("rotten", "sound"):
                admin.create_topic(topic, partitions=1, configs=topic_configs)
            for _ in range(10):
                send(wire, "rotten", (b"key", b"value" * 20))
        broker.stop()
        path = broker.data_directory / "rotten-0" / "00000000000000000000.log"
        content = bytearray(path.read_bytes())
        content[len(content) // 2 - 3] ^= 0xFF
        path.write_bytes(content)
        broker.start()
        with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
            for _ in range(10):
                send(wire, "sound", (b"key", b"value"))
            for topic in ("rotten", "sound"):
                admin.roll(topic)
            eventually(lambda: len(read_records(wire, "sound")) == 1)
            reason = eventually(lambda: describe(admin, "rotten").uncleanable_reason)
            assert "00000000000000000000.log" in reason
            text = scrape(port)
            assert metric(text, "kafka_log_logcleanermanager_uncleanable_partitions_count") == 1
            assert metric(text, "kafka_log_logcleanermanager_uncleanable_bytes") > 0
            assert metric(text, "seglog_log_uncleanable", topic="rotten") == 1
            assert send(wire, "rotten", (b"key", b"value")) == 10
        assert len(wait_for_line(broker, "log-uncleanable")) == 1

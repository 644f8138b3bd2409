"""Next to the field cases C017 to C024: what the cleaner remembers, and odd settings for it."""

import time
from collections.abc import Iterator

import pytest

from seglog.clients import Admin, ClientError
from seglog.clients.admin import ConfigValue
from seglog.clients.testing import RunningBroker
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records import build_batch
from support.eventually import eventually
from support.memory_folder import memory_folder
from support.real_broker import SHORT_PERIODS, base_offsets, describe
from support.wires import Wire, open_wire, read_batches, read_records

MAX_TIMESTAMP = -3
INT64_MAX = 2**63 - 1
BY_HAND = {**SHORT_PERIODS, "log.cleaner.backoff.ms": 3_600_000}
COMPACTED: dict[str, ConfigValue] = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 0.01,
}


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with memory_folder() as folder:
        process = RunningBroker(folder, BY_HAND)
        process.start()
        yield process
        if process.is_running:
            process.kill()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def send(
    wire: Wire, topic: str, key: bytes, value: bytes | None, *, stamp: int = 0, **options: int
) -> None:
    batch = build_batch([(stamp or now_ms(), key, value, ())], **options)  # type: ignore[arg-type]  # numbers only
    assert wire.produce(topic, batch).error == ErrorCode.NONE


def clean(admin: Admin, topic: str) -> None:
    admin.roll(topic)
    (result,) = admin.clean(topic, wait=True)
    assert result.state == "done", result


def make_clean_topic(admin: Admin, wire: Wire, topic: str) -> None:
    """A topic that is clean up to offset 50."""
    admin.create_topic(topic, partitions=1, configs=COMPACTED)
    for number in range(50):
        send(wire, topic, b"k%d" % number, b"old")
    clean(admin, topic)
    assert describe(admin, topic).first_dirty_offset == 50


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["not at all", "clean", "killed"])
def test_a_recreated_topic_is_cleaned_from_its_start(broker: RunningBroker, stop: str) -> None:
    """CLN-2: what is known of a deleted topic must not be taken for one of the same name.

    Its first records would count as clean and keep duplicates for as long as no newer record has
    their keys.
    """
    checkpoint = broker.data_directory / "cleaner-offset-checkpoint"
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        make_clean_topic(admin, wire, "again")
        eventually(lambda: checkpoint.exists() and "again 0 50" in checkpoint.read_text())
        admin.delete_topic("again")
        admin.create_topic("again", partitions=1, configs=COMPACTED)
        assert "again" not in checkpoint.read_text()
    if stop != "not at all":
        broker.stop() if stop == "clean" else broker.kill()
        broker.start()
    with Admin(broker.address) as admin, open_wire("native", broker.port) as wire:
        for number in range(60):
            send(wire, "again", b"key", b"%d" % number)
        assert describe(admin, "again").first_dirty_offset == 0
        clean(admin, "again")
        assert [record.value for record in read_records(wire, "again")] == [b"59"]


@pytest.mark.slow
def test_a_checkpoint_beyond_the_end_is_dropped(broker: RunningBroker) -> None:
    """CLN-2: of a log that was cut, or another copy of the folder."""
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        make_clean_topic(admin, wire, "cut")
    broker.stop()
    checkpoint = broker.data_directory / "cleaner-offset-checkpoint"
    checkpoint.write_text("0\n2\ncut 0 100\nunknown 3 7\n")
    broker.start()
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        for number in range(60):
            send(wire, "cut", b"key", b"%d" % number)
        clean(admin, "cut")
        values = [record.value for record in read_records(wire, "cut")]
        assert values == [b"old"] * 50 + [b"59"]


def test_the_greatest_delete_retention_keeps_tombstones_and_compaction(
    broker: RunningBroker,
) -> None:
    """KEEP-11: the greatest delete.retention.ms there is."""
    configs = {**COMPACTED, "delete.retention.ms": INT64_MAX}
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        admin.create_topic("for-ever", partitions=1, configs=configs)
        for value in (b"old", None):
            send(wire, "for-ever", b"key", value)
        send(wire, "for-ever", b"other", b"value")
        for _ in range(3):
            clean(admin, "for-ever")
        found = [(record.key, record.value) for record in read_records(wire, "for-ever")]
        assert found == [(b"key", None), (b"other", b"value")]
        assert describe(admin, "for-ever").uncleanable_reason is None


def test_the_greatest_timestamp_is_found_past_an_emptied_batch(broker: RunningBroker) -> None:
    """LIST-3, KEEP-9: a tombstone has gone, its batch stays for the producer's sequence."""
    configs = {**COMPACTED, "delete.retention.ms": 0, "retention.ms": -1}
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        admin.create_topic("emptied", partitions=1, configs=configs)
        now = now_ms()
        producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
        send(wire, "emptied", b"kept", b"value", stamp=now - 1000)
        send(wire, "emptied", b"gone", None, stamp=now, **producer)
        for number in range(3):
            send(wire, "emptied", b"last", b"value", stamp=now - 900 + number)
            clean(admin, "emptied")
        counts = [batch.header.record_count for batch in read_batches(wire, "emptied")]
        assert counts == [1, 0, 1]
        assert wire.find("emptied", MAX_TIMESTAMP)[1:] == (4, now - 898)
        assert wire.find("emptied", now - 1).offset == -1


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 12, 23])
def test_a_partition_goes_on_with_the_smallest_index(broker: RunningBroker, size: int) -> None:
    """ROLL-1: segment.index.bytes may be so small that nearly each batch begins a segment."""
    configs = {**COMPACTED, "segment.index.bytes": size, "index.interval.bytes": 0}
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        admin.create_topic("narrow", partitions=1, configs=configs)
        for number in range(10):
            send(wire, "narrow", b"%d" % number, b"value", stamp=now_ms() - 10 + number)
    for stop in (broker.stop, broker.kill):
        stop()
        broker.start()
        with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
            send(wire, "narrow", b"0", b"value")
            clean(admin, "narrow")
            assert len(base_offsets(admin, "narrow")) >= 2
    with open_wire("kafka", broker.port) as wire:
        records = read_records(wire, "narrow")
        assert [record.offset for record in records] == [*range(1, 10), 11]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("log.cleaner.dedupe.buffer.size", 0),
        ("log.cleaner.io.buffer.load.factor", 0),
        ("log.cleaner.io.max.bytes.per.second", 0),
    ],
)
def test_settings_that_would_stop_the_cleaner_are_refused(
    broker: RunningBroker, setting: str, value: int
) -> None:
    """Refused while the broker runs, by name; compaction goes on."""
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        with pytest.raises(ClientError, match=r"log\.cleaner"):
            admin.alter_configs("broker", "", {setting: value})
        make_clean_topic(admin, wire, "still-cleaned")

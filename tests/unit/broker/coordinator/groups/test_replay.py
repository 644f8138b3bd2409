"""Reading ``__consumer_offsets`` back: formats, damage, records of other brokers (C029)."""

import logging
from pathlib import Path

import pytest

from seglog.broker.coordinator.groups.records import (
    CommittedOffset,
    offset_key,
    offset_record,
)
from seglog.broker.coordinator.groups.replay import GroupReplay
from seglog.broker.coordinator.groups.store import OFFSETS_TOPIC
from seglog.broker.coordinator.internal_topics.records import split_by_size
from seglog.broker.coordinator.internal_topics.topic import partition_of_key
from seglog.broker.storage.log.producer_state import AppendOrigin
from seglog.protocol.kafka.codec import encode_record_key, encode_versioned
from seglog.protocol.kafka.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitValue,
)
from seglog.protocol.records.batch import iter_batches
from seglog.protocol.records.builder import build_batch
from seglog.protocol.records.control import ControlType, build_marker
from support.group_broker import GroupBroker

NOW_MS = 1_700_000_000_000


def batch(*records: tuple[bytes | None, bytes | None], **options: object) -> bytes:
    entries = [(NOW_MS, key, value, ()) for key, value in records]
    return bytes(build_batch(entries, **options))  # type: ignore[arg-type]


def test_java_and_python_disagree_about_the_partition_of_a_group() -> None:
    """``String.hashCode``, whose smallest value has no absolute one."""
    assert partition_of_key("group", 50) == 47
    assert partition_of_key("", 50) == 0
    assert partition_of_key("polygenelubricants", 50) == 0, "hash -2^31"
    assert partition_of_key("\U0001f600", 50) == (31 * 0xD83D + 0xDE00) % 50
    assert partition_of_key("test-consumer-group", 50) == 31


async def test_a_stored_record_has_another_form_than_kafka_writes(broker: GroupBroker) -> None:
    """Byte by byte: offset key 1, value 4 with the topic's id; group key 2, value 3."""
    topic = broker.parts.services.catalog.get("t")
    assert topic is not None
    joined = await broker.only_member()
    await broker.commit({("t", 1): 258}, member=joined, leader_epoch=2, metadata="x")
    number = partition_of_key("g", 4)
    data = broker.parts.read_bytes(OFFSETS_TOPIC, number, 0)
    group, offset = (record for each in iter_batches(data) for record in each.records())
    assert offset.key == bytes.fromhex("0001 0001 67 0001 74 00000001")
    stamp = NOW_MS.to_bytes(8, "big").hex()
    assert offset.value == bytes.fromhex(
        f"0004 0000000000000102 00000002 02 78 {stamp} 01 00 10 {topic.topic_id.hex()}"
    )
    assert group.key == bytes.fromhex("0002 0001 67")
    assert group.value is not None
    assert group.value[:2] == b"\x00\x03"
    assert group.value[2:14] == b"\x00\x08consumer" + b"\x00\x00"
    assert offset.timestamp_ms == NOW_MS


def test_a_key_or_value_of_another_age_is_not_understood() -> None:
    """Old offset keys, values of versions 0 to 4 and newer ones, records of newer protocols."""
    replay = GroupReplay("p")
    values = {
        version: encode_versioned(
            OffsetCommitValue(
                offset=10 + version,
                leader_epoch=-1,
                metadata="",
                commit_timestamp=1,
                expire_timestamp=-1,
                topic_id=bytes(range(16)) if version == 4 else bytes(16),
            ),
            version,
        )
        for version in range(5)
    }
    records = [(offset_key("g", ("t", version)), value) for version, value in values.items()]
    newer = b"\x00\x09" + values[4][2:]
    legacy = encode_record_key(LegacyOffsetCommitKey(group="g", topic="t", partition=8))
    records += [(offset_key("g", ("t", 9)), newer), (legacy, values[1]), (b"\x00\x03whatever", b"")]
    assert replay.feed(batch(*records)) == 8
    offsets = {number: entry.offset for (_, number), entry in replay.offsets["g"].items()}
    assert offsets == {0: 10, 1: 11, 2: 12, 3: 13, 4: 14, 8: 11, 9: 14}
    assert replay.offsets["g"]["t", 4].topic_id == bytes(range(16))
    assert replay.faults == 0


def test_a_damaged_record_takes_others_with_it(caplog: pytest.LogCaptureFixture) -> None:
    """It is left out, with a line in the log; what is around it counts."""
    good = offset_record("g", ("t", 0), CommittedOffset(5))
    late = offset_record("g", ("t", 1), CommittedOffset(6))
    key = offset_key("g", ("t", 2))
    bad_crc = bytearray(batch(late, base_offset=6))
    bad_crc[-1] ^= 1
    replay = GroupReplay("offsets-3")
    data = (
        batch(good)
        + batch((key, b"\x00\x03\x00"), (b"\x00", b""), (None, b"x"), (key, b""), base_offset=1)
        + batch((key[:6], b""), base_offset=5)
        + bytes(bad_crc)
        + batch(late, base_offset=7)
    )
    with caplog.at_level(logging.WARNING):
        assert replay.feed(data) == 8
    assert replay.faults == 6
    assert {place: each.offset for place, each in replay.offsets["g"].items()} == {
        ("t", 0): 5,
        ("t", 1): 6,
    }
    assert len(caplog.records) == 6
    assert "offsets-3" in caplog.text


def test_a_broken_length_is_followed_into_nowhere() -> None:
    replay = GroupReplay("p")
    torn = bytearray(batch(offset_record("g", ("t", 0), CommittedOffset(5))))
    torn[8:12] = b"\xff\xff\xff\xff"
    assert replay.feed(bytes(torn)) is None
    assert replay.faults == 1


def test_offsets_of_an_aborted_transaction_are_taken() -> None:
    """As Apache Kafka's brokers leave them: those of committed ones count, open ones do not."""
    replay = GroupReplay("p")
    data = b""
    for producer_id, outcome in ((1, ControlType.COMMIT), (2, ControlType.ABORT), (3, None)):
        record = offset_record("g", ("t", producer_id), CommittedOffset(producer_id))
        data += batch(
            record,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        if outcome is not None:
            data += build_marker(
                outcome,
                producer_id=producer_id,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=NOW_MS,
            )
    replay.feed(data)
    assert list(replay.offsets["g"]) == [("t", 1)]
    assert {producer: list(groups["g"]) for producer, groups in replay.pending.items()} == {
        3: [("t", 3)]
    }
    assert replay.faults == 0


async def test_a_restart_reads_only_the_first_piece(broker: GroupBroker) -> None:
    """Pieces smaller than a batch, many segments, and tombstones in later ones."""
    for step in range(30):
        await broker.commit({("t", step % 2): step})
        if step % 10 == 0:
            number = partition_of_key("g", 4)
            broker.parts.partition(OFFSETS_TOPIC, number).roll(NOW_MS)
    broker = await broker.restarted({"offsets.load.buffer.size": "1"})
    assert await broker.committed() == {("t", 0): 28, ("t", 1): 29}
    await broker.stop()


async def test_damage_in_a_segment_hides_the_next_one(
    broker: GroupBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """After a clean stop nothing is recovered, so the damage is only met while reading."""
    await broker.commit({("t", 0): 5})
    number = partition_of_key("g", 4)
    partition = broker.parts.partition(OFFSETS_TOPIC, number)
    partition.roll(NOW_MS)
    await broker.commit({("t", 1): 6})
    path = Path(partition.log.directory) / f"{0:020d}.log"
    await broker.stop()
    content = bytearray(path.read_bytes())
    content[16] = 9
    path.write_bytes(content)
    successor = await GroupBroker.start(path.parents[2], log_dir=broker.parts.log_dir)
    await successor.coordination.groups.loaded()
    assert await successor.committed() == {("t", 1): 6}
    assert successor.coordination.groups.counters.load_faults == 1
    assert "damaged" in caplog.text
    await successor.stop()


async def test_a_group_with_members_but_without_a_protocol_stops_the_start(
    broker: GroupBroker,
) -> None:
    """Values that nobody should have written are taken as well as they can be."""
    await broker.commit({("t", 0): 5})
    value = GroupMetadataValue(
        protocol_type="",
        generation=3,
        protocol=None,
        leader="nobody",
        current_state_timestamp=-1,
        members=[],
    )
    record = (encode_record_key(GroupMetadataKey(group="g")), encode_versioned(value, 0))
    data = memoryview(bytearray(batch(record)))
    number = partition_of_key("g", 4)
    broker.parts.partition(OFFSETS_TOPIC, number).append(data, -1, NOW_MS, AppendOrigin.COORDINATOR)
    broker = await broker.restarted()
    assert (await broker.describe()).state == "Empty"
    assert await broker.committed() == {("t", 0): 5}
    await broker.stop()


def test_runs_of_records_are_larger_than_they_may_be() -> None:
    records = [(b"k" * size, b"") for size in (10, 10, 100, 10, 10, 10)]
    runs = list(split_by_size(records, 70))
    assert [len(run) for run in runs] == [2, 1, 2, 1]
    assert [record for run in runs for record in run] == records

"""Batches that compaction has emptied and keeps for their producer's sake, read by every client."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from seglog.clients import Admin
from seglog.clients.testing import RunningBroker
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records.builder import build_batch
from support.foreign.dump_tool import dump_folder
from support.foreign.everyone import CLIENTS
from support.foreign.shape import Read, UnavailableError
from support.wires import KafkaWire, read_batches

T: Final = 1_700_000_000_000
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "3600000000",
}


@pytest.fixture(scope="module")
def data_folders() -> Iterator[list[Path]]:
    """As for other modules, but compaction leaves gaps, of which the tool speaks."""
    folders: list[Path] = []
    yield folders
    try:
        found = dump_folder(*folders, may_have_holes=True)
    except UnavailableError:
        return
    assert found.complaints == []


def write(wire: KafkaWire, topic: str, key: bytes, value: bytes, **producer: int) -> None:
    # Kafka's tool takes an emptied batch for one without a time: no index entry may be about it.
    timestamp_ms = T + (value == b"new")
    answer = wire.produce(topic, build_batch([(timestamp_ms, key, value, ())], **producer))
    assert answer.error == ErrorCode.NONE, answer


@pytest.fixture(scope="module")
def topic(broker: RunningBroker, admin: Admin) -> str:
    """Emptied batches at the start, between records, and at the end of what was compacted."""
    name = "emptied-batches"
    admin.create_topic(name, partitions=1, configs=COMPACTED)
    with KafkaWire(broker.port) as wire:
        for number, key in enumerate((b"a", b"b", b"c")):
            write(wire, name, key, b"old", producer_id=9000 + number, producer_epoch=0,
                  base_sequence=0)  # fmt: skip
        write(wire, name, b"a", b"new")
        write(wire, name, b"d", b"old", producer_id=9003, producer_epoch=0, base_sequence=0)
        admin.roll(name)
        for key in (b"b", b"c", b"d"):
            write(wire, name, key, b"new")
        admin.roll(name)
        (result,) = admin.clean(name, wait=True)
        assert result.state == "done", result
        counts = [each.header.record_count for each in read_batches(wire, name)]
        assert counts.count(0) == 4, counts
    return name


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("start", [0, 4])
@pytest.mark.parametrize("reader", CLIENTS)
def test_every_client_reads_past_emptied_batches(
    topic: str, foreign, reader: str, start: int, isolation: str
) -> None:
    """U26, KEEP-9: from the start, and from within a gap."""
    expected = [
        Read(0, offset, T + 1, key, b"new", ())
        for offset, key in ((3, b"a"), (5, b"b"), (6, b"c"), (7, b"d"))
        if offset >= start
    ]
    found = foreign(reader).consume(topic, len(expected), start=start, isolation=isolation)
    assert found == expected

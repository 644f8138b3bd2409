"""A compacted topic of the demo: the last flight of each plane, keyed by its tail number."""

from typing import Protocol

from examples.flights import Flight
from seglog.clients import Admin, Consumer, Producer
from seglog.clients.testing import RunningBroker

TOPIC = "last-flights"
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 0.01,
    "segment.bytes": 4 * 1024 * 1024,
    "file.delete.delay.ms": 0,
}


class Rows(Protocol):
    """Where figures go."""

    def add(self, step: str, count: int, unit: str, seconds: float | None = None) -> None:
        """One row."""
        ...


def last_flights(broker: RunningBroker, source: list[Flight], report: Rows) -> None:
    """Write every flight of a known plane, compact, and compare with the latest of each in a dict.

    Raises:
        AssertionError: what is left is not exactly the latest record of each plane, at its offset.
    """
    written = [each for each in source if each.tail_number]
    with Admin(broker.address) as admin:
        admin.create_topic(TOPIC, partitions=1, configs=CONFIGS)
        with Producer(broker.address, acks="all", compression="zstd") as producer:
            producer.send_many(
                TOPIC, ((each.tail_number, each.value, each.timestamp_ms) for each in written)
            )
        admin.roll(TOPIC)
        before = size_of(admin)
        (outcome,) = admin.clean(TOPIC, wait=True)
        assert outcome.state == "done", outcome
        after = size_of(admin)
    expected = {each.tail_number: offset for offset, each in enumerate(written)}
    with Consumer(broker.address, TOPIC, start="earliest", stop_at_end=True) as consumer:
        found = [(record.offset, record.key, record.value) for record in consumer]
    assert found == sorted(
        (offset, tail_number, written[offset].value) for tail_number, offset in expected.items()
    ), "the compacted topic is not the last flight of each plane"
    report.add("compacted topic before", before, "bytes")
    report.add("compacted topic after", after, "bytes")
    report.add("last flight of each plane", len(found), "records, offsets unchanged")


def size_of(admin: Admin) -> int:
    """Bytes of the topic's only partition."""
    (description,) = admin.describe_partitions([TOPIC]).values()
    return description.size_bytes

"""Field cases about files that were damaged while the broker was down."""

import itertools
import random
import shutil
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from seglog.clients import Admin, NewTopic
from seglog.clients.testing import RunningBroker, running_broker
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records import build_batch, iter_batches
from support.batches import T
from support.memory_folder import memory_folder
from support.processor_time import in_time
from support.real_broker import base_offsets, log_lines
from support.stopped_logs import data_files, segment_file
from support.wires import Wire, open_wire, read_batches, read_records

LATEST = -1
CLEAN_MARKER = ".kafka_cleanshutdown"


def batch(count: int, first: int, size: int = 100) -> bytearray:
    """Numbered records stamped 10 ms apart."""
    return build_batch(
        [
            (T + 10 * number, b"%d" % number, b"%d" % number + bytes(size), ())
            for number in range(first, first + count)
        ]
    )


def restore(source: Path, target: Path) -> None:
    """Make a partition's folder hold the segments of another one."""
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata":
            shutil.copy2(path, target)


# ---- C026

Damage = Callable[[Path, Path, int], object]


def rewritten(change: Callable[[bytes], bytes]) -> Damage:
    """A damage of the index file alone."""
    return lambda index, _data, _base: index.write_bytes(change(index.read_bytes()))


def damage_by_name(entry_bytes: int) -> Mapping[str, Damage]:
    """What is done to an index file; it gets the index, the data file and the base offset."""

    def entries(content: bytes) -> list[bytes]:
        return [content[at : at + entry_bytes] for at in range(0, len(content), entry_bytes)]

    def write_last(index: Path, relative_offset: int, value: int) -> None:
        entry = (
            struct.pack(">ii", relative_offset, value)
            if entry_bytes == 8
            else struct.pack(">qi", value, relative_offset)
        )
        index.write_bytes(index.read_bytes()[:-entry_bytes] + entry)

    def swap(index: Path, _data: Path, _base: int) -> None:
        parts = entries(index.read_bytes())
        middle = len(parts) // 2
        parts[middle], parts[middle + 1] = parts[middle + 1], parts[middle]
        index.write_bytes(b"".join(parts))

    junk = random.Random(1).randbytes(entry_bytes * 4)
    return {
        "removed": lambda index, _data, _base: index.unlink(),
        "0 bytes": rewritten(lambda _: b""),
        "13 bytes": rewritten(lambda content: content[:13]),
        "0xFF": rewritten(lambda content: b"\xff" * len(content)),
        "NUL": rewritten(lambda content: bytes(len(content))),
        "last entry at the base": lambda index, _data, _base: write_last(index, 0, 0),
        "last entry below the base": lambda index, _data, _base: write_last(index, -5, 7),
        "two entries swapped": swap,
        "last entry beyond the data": lambda index, data, _base: write_last(
            index, 2_000_000_000, data.stat().st_size + 1000 if entry_bytes == 8 else T * 2
        ),
        "junk in the middle": rewritten(
            lambda content: content[: 3 * entry_bytes] + junk + content[7 * entry_bytes :]
        ),
        "data file missing": lambda _index, data, _base: data.unlink(),
        "data file of 0 bytes": lambda _index, data, _base: data.write_bytes(b""),
    }


KINDS = {".index": 8, ".timeindex": 12}
OF_DATA = ("data file missing", "data file of 0 bytes")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory: hundreds of logs are copied, and none of this is about the disk."""
    with memory_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def module_path() -> Iterator[Path]:
    with memory_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def indexed(module_path: Path) -> Path:
    """A stopped broker's folder; ``pattern-0`` has 10000 records in 4 closed segments and one."""
    folder = module_path / "indexed"
    names = [
        f"damaged-{kind[1:]}-{place}-{number}"
        for kind in KINDS
        for place in ("closed", "active")
        for number in range(len(damage_by_name(8)))
    ]
    with running_broker(folder=folder, configs={"log.retention.ms": -1}) as broker:
        with Admin(broker.address) as admin, open_wire("native", broker.port) as wire:
            admin.create_topics(
                [NewTopic(name, 1, -1, {"segment.bytes": "250000"}) for name in ["pattern", *names]]
            )
            for first in range(0, 10_000, 10):
                assert wire.produce("pattern", batch(10, first)).error == ErrorCode.NONE
            assert len(base_offsets(admin, "pattern")) == 5
        broker.stop()
        for name in names:
            restore(broker.data_directory / "pattern-0", broker.data_directory / f"{name}-0")
        broker.start()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_damaged_indexes_are_put_right_without_loss(
    indexed: Path, tmp_path: Path, stop: str
) -> None:
    """C026: twelve damages of both kinds of index, in a closed segment and in the active one."""
    folder = tmp_path / "copy"
    shutil.copytree(indexed, folder)
    pattern = folder / "data" / "pattern-0"
    bases = [int(path.stem) for path in data_files(pattern)]
    done = []
    for kind, entry_bytes in KINDS.items():
        for place, base in (("closed", bases[1]), ("active", bases[-1])):
            for number, (name, damage) in enumerate(damage_by_name(entry_bytes).items()):
                topic = f"damaged-{kind[1:]}-{place}-{number}"
                target = folder / "data" / f"{topic}-0"
                index, data = segment_file(target, base, kind), segment_file(target, base, ".log")
                damage(index, data, base)
                done.append((topic, place, name))
    if stop == "killed":
        (folder / "data" / CLEAN_MARKER).unlink()
    (folder / "broker.log").unlink()
    start = time.monotonic()
    with running_broker(folder=folder) as broker:
        assert in_time(time.monotonic() - start, 10)
        probes = random.Random(26).sample(range(10_000), 100)
        for topic, place, name in done:
            check_indexed(broker, topic, place, name, bases, probes)
            lines = [*log_lines(broker, f"/{topic}-0/"), *log_lines(broker, f"={topic}-0 ")]
            lines = [line for line in lines if "level=warning" in line and "odd-" not in line]
            assert len(lines) <= 3, lines
            if name in OF_DATA:
                assert lines, f"nobody said that {topic} has a hole: {name}"
        broker.stop()
        # What was rebuilt is on disk: the next start has nothing to say about it.
        size = broker.log_file.stat().st_size
        broker.start()
        with open_wire("native", broker.port, timeout=60) as wire:
            for topic, _, _ in done:
                wire.find(topic, T)
                wire.fetch(topic, wire.find(topic, LATEST).offset - 1)
        assert [line for line in log_lines(broker, "damaged-", size) if "warning" in line] == []


def check_indexed(
    broker: RunningBroker, topic: str, place: str, name: str, bases: list[int], probes: list[int]
) -> None:
    end = bases[-1] if place == "active" and name in OF_DATA else 10_000
    hole = range(bases[1], bases[2]) if place == "closed" and name in OF_DATA else range(0)
    expected = [number for number in range(end) if number not in hole]
    with open_wire("kafka", broker.port, timeout=60) as wire:
        for number in probes:
            following = next((each for each in (number, hole.stop) if each not in hole), -1)
            wanted = following if following < end else -1
            found = wire.find(topic, T + 10 * number)
            assert found.offset == wanted, (topic, name, number)
        records = read_records(wire, topic)
        assert [record.offset for record in records] == expected, (topic, name)
        assert [record.key for record in records] == [b"%d" % number for number in expected]
        assert wire.find(topic, LATEST).offset == end
        for number in probes[:20]:
            answer = wire.fetch(topic, number, partition_max_bytes=1)
            if number < end:
                assert answer.batches[0].header.last_offset >= number
        assert wire.produce(topic, batch(1, end)).base_offset == end


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_start_repairs_each_damage_alone(indexed: Path, tmp_path: Path, kind: str) -> None:
    """C026 to the letter: one start for each damage."""
    folder = tmp_path / "copy"
    shutil.copytree(indexed, folder)
    for path in (folder / "data").glob("damaged-*"):
        shutil.rmtree(path)
    pattern = folder / "data" / "pattern-0"
    shutil.copytree(pattern, tmp_path / "pattern")
    base, following = (int(path.stem) for path in data_files(pattern)[2:4])
    with running_broker(folder=folder) as broker, Admin(broker.address) as admin:
        admin.delete_topics([each for each in admin.list_topics() if each.startswith("damaged")])
        for name, damage in damage_by_name(KINDS[kind]).items():
            broker.stop()
            restore(tmp_path / "pattern", pattern)
            damage(segment_file(pattern, base, kind), segment_file(pattern, base, ".log"), base)
            start = time.monotonic()
            broker.start()
            assert in_time(time.monotonic() - start, 10)
            with open_wire("native", broker.port) as wire:
                found = [record.offset for record in read_records(wire, "pattern")]
                hole = following - base if name in OF_DATA else 0
                assert len(found) == 10_000 - hole, name


# ---- C030


def last_batches(content: bytes, count: int) -> bytes:
    """The bytes of the last batches."""
    return b"".join(bytes(each.view) for each in list(iter_batches(content))[-count:])


TAILS: Mapping[str, Callable[[bytes], bytes]] = {
    "1 zero": lambda content: bytes(1),
    "60 zeros": lambda content: bytes(60),
    "61 zeros": lambda content: bytes(61),
    "4096 zeros": lambda content: bytes(4096),
    "4096 random": lambda content: random.Random(30).randbytes(4096),
    "last batch again": lambda content: last_batches(content, 1),
    "two last batches again": lambda content: last_batches(content, 2),
    "a torn batch": lambda content: bytes(build_batch([(T, b"k", b"v" * 100, ())], base_offset=30))[
        :-7
    ],
}
CUTS = range(1, 601)


@pytest.fixture(scope="module")
def tailed(module_path: Path) -> Path:
    """A killed broker's folder: ``pattern-0`` holds 10 batches of 3 records in one segment."""
    folder = module_path / "tailed"
    names = [f"cut-{cut}" for cut in CUTS] + [f"tail-{number}" for number in range(len(TAILS))]
    with running_broker(folder=folder, configs={"log.retention.ms": -1}) as broker:
        with Admin(broker.address) as admin, open_wire("native", broker.port) as wire:
            configs = {"segment.index.bytes": "4096"}
            admin.create_topics([NewTopic(name, 1, -1, configs) for name in ["pattern", *names]])
            for first in range(0, 30, 3):
                wire.produce("pattern", batch(3, first, size=40))
        broker.kill()
        for name in names:
            restore(folder / "data" / "pattern-0", folder / "data" / f"{name}-0")
        broker.start()
        broker.kill()
        broker.start()
        broker.kill()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["killed", "clean"])
def test_torn_tails_are_cut_and_appends_go_on(tailed: Path, tmp_path: Path, stop: str) -> None:
    """C030: every cut of 1 to 600 bytes, and junk behind the data.

    A cut file is read, and written, also if the marker says that the stop was clean (a copy that
    somebody took); what follows the data then is not looked for.
    """
    folder = tmp_path / "copy"
    shutil.copytree(tailed, folder)
    data = folder / "data"
    content = data_files(data / "pattern-0")[0].read_bytes()
    sizes = [each.header.size_bytes for each in iter_batches(content)]
    assert len(sizes) == 10
    assert all(180 < size < 260 for size in sizes)
    ends = list(itertools.accumulate(sizes))
    expected = {}
    for cut in CUTS:
        data_files(data / f"cut-{cut}-0")[0].write_bytes(content[:-cut])
        expected[f"cut-{cut}"] = 3 * sum(1 for end in ends if end <= len(content) - cut)
    for number, tail in enumerate(TAILS.values()):
        path = data_files(data / f"tail-{number}-0")[0]
        path.write_bytes(content + tail(content))
        expected[f"tail-{number}"] = 30
    if stop == "clean":
        (data / CLEAN_MARKER).write_text('{"version":0,"brokerEpoch":-1}')
    with running_broker(folder=folder) as broker:
        for dialect, topics in zip(
            ("native", "kafka"), (list(expected)[::2], list(expected)[1::2]), strict=True
        ):
            with open_wire(dialect, broker.port, timeout=60) as wire:
                for topic in topics:
                    check_tail(wire, topic, expected[topic])
        assert broker.stop() == 0
        broker.start()
        with open_wire("native", broker.port, timeout=60) as wire:
            for topic in list(expected)[::20]:
                records = read_records(wire, topic)
                assert [each.offset for each in records] == [*range(expected[topic] + 1)], topic


def check_tail(wire: Wire, topic: str, end: int) -> None:
    assert wire.find(topic, LATEST).offset == end, topic
    batches = read_batches(wire, topic)
    for each in batches:
        each.check()
    assert [record.offset for each in batches for record in each.records()] == [*range(end)]
    assert wire.produce(topic, batch(1, end)).base_offset == end, topic
    records = read_records(wire, topic)
    assert [record.key for record in records] == [b"%d" % number for number in range(end + 1)]

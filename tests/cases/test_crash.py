"""Field cases about crashes, full disks and limits of the system, on a real broker."""

import itertools
import os
import random
import resource
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seglog.clients import Admin
from seglog.clients.admin import ConfigValue
from seglog.clients.testing import RunningBroker
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records import build_batch
from support.broker_process import BrokerProcess, broker_process
from support.eventually import eventually
from support.kafka_groups import commit_offset, commit_once, committed_offset
from support.processor_time import in_time
from support.real_broker import SHORT_PERIODS, all_files, log_lines
from support.wires import WIRES, KafkaWire, NativeWire, open_wire, read_batches, read_records

EARLIEST, LATEST = -2, -1
MIB = 1 << 20


def now_ms() -> int:
    return time.time_ns() // 1_000_000


Pair = tuple[bytes, bytes]


def one_record(pair: Pair) -> bytearray:
    return build_batch([(now_ms(), *pair, ())])


class Sender(threading.Thread):
    """Sends records, one after the other, and notes what was acknowledged and what was refused."""

    def __init__(self, port: int, dialect: str, topic: str, make: Callable[[int], Pair]) -> None:
        super().__init__()
        self.acknowledged: dict[int, Pair] = {}
        self.refused: list[ErrorCode] = []
        self.lost: Exception | None = None
        self.stopping = threading.Event()
        self._port, self._dialect = port, dialect
        self._topic, self._make = topic, make

    def run(self) -> None:
        try:
            with open_wire(self._dialect, self._port) as wire:
                for number in itertools.count():
                    if self.stopping.is_set():
                        return
                    pair = self._make(number)
                    answer = wire.produce(self._topic, one_record(pair))
                    if answer.error == ErrorCode.NONE:
                        self.acknowledged[answer.base_offset] = pair
                    else:
                        self.refused.append(answer.error)
                        # As clients back off; so that a full disk does not keep the broker busy.
                        self.stopping.wait(0.02)
        except OSError as error:
            self.lost = error

    def finish(self) -> None:
        """Stop sending."""
        self.stopping.set()
        self.join(20)
        assert not self.is_alive()


# ---- C028


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 32 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(place)]
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system")
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def big(sender: int) -> Callable[[int], Pair]:
    """Records of 100 KB, each with a key of its own."""
    return lambda number: (b"%d-%d" % (sender, number), random.randbytes(100_000))


@pytest.mark.slow
@pytest.mark.parametrize("dialect", WIRES)
def test_a_full_disk_refuses_batches_and_nothing_else(small_disk: Path, dialect: str) -> None:
    """C028: 4 producers until 20 errors; deletion makes room; a kill loses nothing."""
    configs = {"log.segment.bytes": MIB, "offsets.topic.num.partitions": 1}
    broker = RunningBroker(small_disk, configs)
    broker.log_file = small_disk.parent / "broker.log"
    broker.start()
    try:
        acknowledged = fill_disk(broker, dialect)
        broker.kill()
        broker.start()
        check_after_kill(broker, acknowledged)
        assert broker.stop() == 0
    finally:
        if broker.is_running:
            broker.kill()


def fill_disk(broker: RunningBroker, dialect: str) -> dict[int, Pair]:
    """The case up to the kill; returns the records of A that were acknowledged, by offset."""
    with (
        Admin(broker.address) as admin,
        open_wire(dialect, broker.port) as wire,
        KafkaWire(broker.port) as committer,
    ):
        for topic in ("a", "b"):
            admin.create_topic(topic, partitions=1)
        for number in range(10):
            assert wire.produce("b", one_record(big(0)(number))).error == ErrorCode.NONE
        assert commit_offset(committer, "readers", "b", 1) == ErrorCode.NONE
        senders = [Sender(broker.port, dialect, "a", big(number)) for number in range(4)]
        for sender in senders:
            sender.start()
        eventually(
            lambda: sum(len(sender.refused) for sender in senders), 60, lambda count: count >= 20
        )
        # The disk is full, and the producers go on trying: everything else works.
        assert len(read_batches(wire, "b")) == 10
        commit_offset(committer, "readers", "b", 2)
        assert committed_offset(committer, "readers", "b") in {1, 2}
        assert set(admin.list_topics()) == {"a", "b"}
        end = wire.find("a", LATEST).offset
        assert end > 150
        assert wire.fetch("a", end - 1).batches
        refused = [len(sender.refused) for sender in senders]
        error, start = wire.delete_before("a", 105)
        assert (error, start) == (ErrorCode.NONE, 105)
        deleted = time.monotonic()
        eventually(lambda: wire.find("a", LATEST).offset > end + 20)
        assert in_time(time.monotonic() - deleted, 5)
        eventually(lambda: time.monotonic() - deleted > 5)
        for sender in senders:
            sender.finish()
            assert sender.lost is None
        errors = {error for sender in senders for error in sender.refused}
        assert errors == {ErrorCode.KAFKA_STORAGE_ERROR}, errors
        assert sum(refused) >= 20
    return {offset: pair for sender in senders for offset, pair in sender.acknowledged.items()}


def check_after_kill(broker: RunningBroker, acknowledged: dict[int, Pair]) -> None:
    with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
        assert set(admin.list_topics()) == {"a", "b"}
        assert len(read_records(wire, "b")) == 10
        start = wire.find("a", EARLIEST).offset
        assert start == 105
        found = {each.offset: (each.key, each.value) for each in read_records(wire, "a")}
        expected = {offset: pair for offset, pair in acknowledged.items() if offset >= start}
        assert {offset: found.get(offset) for offset in expected} == expected
        for batch in read_batches(wire, "a"):
            batch.check()
        assert log_lines(broker, "log-dir-offline") == []


def fill_up(filler: Path) -> None:
    """Take all the space that is left."""
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError:
                return


@pytest.mark.slow
def test_a_broker_stops_and_starts_on_a_full_disk(small_disk: Path) -> None:
    """C028, C074: clean stop, start, kill and start with not a byte left."""
    broker = RunningBroker(small_disk, {"log.segment.bytes": MIB})
    broker.log_file = small_disk.parent / "broker.log"
    broker.start()
    filler = small_disk / "filler"
    try:
        with Admin(broker.address) as admin, open_wire("native", broker.port) as wire:
            admin.create_topic("t", partitions=3)
            for number in range(6):
                batch = one_record(big(0)(number))
                assert wire.produce("t", batch, partition=number % 3).error == ErrorCode.NONE
            fill_up(filler)
            refused = [wire.produce("t", one_record(big(0)(9))).error for _ in range(3)]
            assert ErrorCode.KAFKA_STORAGE_ERROR in refused
            assert len(read_records(wire, "t")) >= 2
        for stop in (broker.stop, broker.kill, broker.stop):
            start = time.monotonic()
            stop()
            assert in_time(time.monotonic() - start, 5)
            broker.start()
            with open_wire("kafka", broker.port) as wire:
                for partition in range(3):
                    assert len(read_records(wire, "t", partition=partition)) >= 2
        filler.unlink()
        with open_wire("kafka", broker.port) as wire:
            eventually(lambda: wire.produce("t", one_record(big(0)(9))).error == ErrorCode.NONE)
        assert broker.stop() == 0
    finally:
        if broker.is_running:
            broker.kill()


@pytest.mark.slow
def test_commits_on_a_full_disk_are_stored_or_refused(small_disk: Path) -> None:
    """C028 for offsets of groups: refused with a retriable code, and none that was told is lost."""
    broker = RunningBroker(small_disk, {"offsets.topic.num.partitions": 1})
    broker.log_file = small_disk.parent / "broker.log"
    broker.start()
    filler = small_disk / "filler"
    try:
        with Admin(broker.address) as admin, KafkaWire(broker.port) as wire:
            admin.create_topic("t", partitions=1)
            assert commit_offset(wire, "readers", "t", 1) == ErrorCode.NONE
            fill_up(filler)
            stored = [1]
            refused = set()
            for offset in range(2, 200):
                error = commit_once(wire, "readers", "t", offset)
                if error == ErrorCode.NONE:
                    stored.append(offset)
                else:
                    refused.add(error)
            assert refused == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
            assert committed_offset(wire, "readers", "t") == stored[-1]
        broker.kill()
        broker.start()
        with KafkaWire(broker.port) as wire:
            assert committed_offset(wire, "readers", "t") == stored[-1]
            filler.unlink()
            assert commit_offset(wire, "readers", "t", 1000) == ErrorCode.NONE
        assert log_lines(broker, "log-dir-offline") == []
        assert broker.stop() == 0
    finally:
        if broker.is_running:
            broker.kill()


@pytest.mark.slow
def test_retention_frees_a_full_disk_unasked(small_disk: Path) -> None:
    """C028: everything has expired, and there is not a byte for the segment that follows."""
    broker = RunningBroker(small_disk, {**SHORT_PERIODS, "log.segment.bytes": MIB})
    broker.log_file = small_disk.parent / "broker.log"
    broker.start()
    try:
        with Admin(broker.address) as admin, open_wire("kafka", broker.port) as wire:
            configs: dict[str, ConfigValue] = {"retention.ms": 3000, "file.delete.delay.ms": 0}
            admin.create_topic("t", partitions=1, configs=configs)
            for _ in range(2):
                while wire.produce("t", one_record(big(0)(1))).error == ErrorCode.NONE:
                    pass
                (small_disk / "data" / "seglog-reserve").unlink(missing_ok=True)
                filler = small_disk / "filler"
                fill_up(filler)
                end = wire.find("t", LATEST).offset
                eventually(lambda end=end: wire.find("t", EARLIEST).offset == end)
                filler.unlink()
            eventually(lambda: wire.produce("t", one_record(big(0)(1))).error == ErrorCode.NONE)
        assert broker.stop() == 0
    finally:
        if broker.is_running:
            broker.kill()


# ---- kill -9 while everything is going on


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_kill_during_produce_compaction_and_retention_loses_nothing(
    tmp_path: Path, seed: int
) -> None:
    """Acknowledged records survive a killed process, whatever was being done to their files."""
    generator = random.Random(seed)
    configs = {
        **SHORT_PERIODS,
        "log.retention.check.interval.ms": 100,
        "log.segment.delete.delay.ms": 50,
        "log.cleaner.backoff.ms": 50,
        "log.segment.bytes": 20_000,
    }
    plans: dict[str, dict[str, ConfigValue]] = {
        "kept": {"retention.ms": -1},
        "short": {"retention.bytes": 60_000},
        "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01},
        "both": {
            "cleanup.policy": "compact,delete",
            "retention.bytes": 100_000,
            "min.cleanable.dirty.ratio": 0.01,
        },
    }
    acknowledged: dict[str, dict[int, Pair]] = {topic: {} for topic in plans}
    broker = RunningBroker(tmp_path, configs)
    broker.start()
    try:
        with Admin(broker.address) as admin:
            for topic, plan in plans.items():
                admin.create_topic(topic, partitions=1, configs=plan)
        for number in range(5):
            senders = start_senders(broker, list(plans), number)
            eventually(lambda senders=senders: all(each.acknowledged for each in senders.values()))
            threading.Event().wait(generator.uniform(0.3, 1.2))
            broker.kill()
            for topic, sender in senders.items():
                sender.finish()
                acknowledged[topic].update(sender.acknowledged)
            broker.start()
            check_survivors(broker, acknowledged)
        assert broker.stop() == 0
        files = all_files(broker.data_directory)
        assert not [file for file in files if file.suffix in {".cleaned", ".swap", ".tmp"}]
        for event in ("log-uncleanable", "log-not-loaded", "records-missing", "Traceback"):
            assert log_lines(broker, event) == []
        assert log_lines(broker, "event=log-cleaned")
        assert log_lines(broker, "event=segments-deleted")
    finally:
        if broker.is_running:
            broker.kill()


def start_senders(broker: RunningBroker, topics: list[str], life: int) -> dict[str, Sender]:
    """One for each topic, over both dialects in turn."""

    def make(number: int) -> Pair:
        return b"k%d" % (number % 37), b"%d-%d" % (life, number) + bytes(300)

    dialects = itertools.cycle(WIRES)
    senders = {topic: Sender(broker.port, next(dialects), topic, make) for topic in topics}
    for sender in senders.values():
        sender.start()
    return senders


def check_survivors(broker: RunningBroker, acknowledged: dict[str, dict[int, Pair]]) -> None:
    with open_wire("kafka", broker.port) as wire:
        for topic, told in acknowledged.items():
            records = read_records(wire, topic)
            offsets = [record.offset for record in records]
            start = wire.find(topic, EARLIEST).offset
            end = wire.find(topic, LATEST).offset
            assert end > max(told)
            assert offsets == sorted(set(offsets))
            if topic in {"kept", "short"}:
                assert offsets[-1] == end - 1
                assert len(offsets) == end - offsets[0]
            for record in records:
                if record.offset in told:
                    assert (record.key, record.value) == told[record.offset]
            newest = {record.key: record.offset for record in records}
            promised = {key: offset for offset, (key, _) in sorted(told.items())}
            # Of each key the newest acknowledged record is there, or one that came after it.
            late = {
                key: (offset, newest.get(key))
                for key, offset in promised.items()
                if offset >= start and newest.get(key, -1) < offset
            }
            assert not late, (topic, late)


def test_leftovers_of_a_killed_broker_are_removed_at_the_next_start(tmp_path: Path) -> None:
    """`.deleted` files of retention and compaction, and folders of deleted topics."""
    broker = RunningBroker(tmp_path, {"log.segment.delete.delay.ms": 3_600_000})
    broker.start()
    try:
        with Admin(broker.address) as admin, NativeWire(broker.port) as wire:
            admin.create_topic("short", partitions=1, configs={"retention.bytes": 0})
            admin.create_topic("compacted", partitions=1, configs={"cleanup.policy": "compact"})
            admin.create_topic("gone", partitions=2)
            for topic in ("short", "compacted", "gone"):
                for _ in range(3):
                    assert wire.produce(topic, one_record((b"k", b"v"))).error == ErrorCode.NONE
                    admin.roll(topic)
            admin.run_retention(["short"])
            admin.clean("compacted", wait=True)
            admin.delete_topic("gone")
            admin.create_topic("gone", partitions=1)
        names = [path.name for path in broker.data_directory.rglob("*")]
        assert sum(name.endswith(".deleted") for name in names) >= 6
        assert sum(name.endswith("-delete") for name in names) == 2
        broker.kill()
        broker.start()
        eventually(lambda: not list(broker.data_directory.rglob("*.deleted")))
        eventually(lambda: not list(broker.data_directory.glob("*-delete")))
        with open_wire("kafka", broker.port) as wire:
            assert wire.find("gone", LATEST).offset == 0
            assert wire.find("short", LATEST).offset == 3
            assert [record.offset for record in read_records(wire, "compacted")] == [2]
        assert broker.stop() == 0
    finally:
        if broker.is_running:
            broker.kill()


# ---- C032


def limited(soft: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, soft))


def descriptors_of(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.process.pid}/fd"))


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in all_files(folder / "data"))


@pytest.mark.slow
def test_a_thousand_partitions_live_with_512_descriptors(tmp_path: Path) -> None:
    """C032: files and descriptors stay the same over 5 restarts; then traffic and 300 clients."""
    partitions = range(1000)
    with broker_process(tmp_path, preexec_fn=limited(512)) as broker:
        with Admin(f"127.0.0.1:{broker.port}") as admin:
            admin.create_topic("wide", partitions=1000)
        with NativeWire(broker.port) as wire:
            for partition in partitions:
                answer = wire.produce("wide", one_record((b"k", b"first")), partition=partition)
                assert answer.error == ErrorCode.NONE
        assert descriptors_of(broker) < 512
        assert broker.stop() == 0
    files, counts = [], []
    for _ in range(5):
        with broker_process(tmp_path, preexec_fn=limited(512)) as broker:
            counts.append(descriptors_of(broker))
            assert broker.stop() == 0
        files.append(files_in(tmp_path))
    assert all(each == files[0] for each in files)
    assert max(counts) < 512
    assert max(counts) - min(counts) <= 10
    with broker_process(tmp_path, preexec_fn=limited(512)) as broker:
        check_limited(broker, partitions)
        assert broker.stop() == 0


def check_limited(broker: BrokerProcess, partitions: range) -> None:
    clients: list[socket.socket] = []
    try:
        with KafkaWire(broker.port) as wire:
            for partition in partitions:
                answer = wire.produce("wide", one_record((b"k", b"second")), partition=partition)
                assert answer.base_offset == 1
            for partition in partitions:
                records = read_records(wire, "wide", partition=partition)
                assert [record.value for record in records] == [b"first", b"second"]
            assert descriptors_of(broker) < 512
            clients += (socket.create_connection(("127.0.0.1", broker.port)) for _ in range(300))
            for partition in partitions:
                records = read_records(wire, "wide", partition=partition, start=1)
                assert [record.value for record in records] == [b"second"]
            assert descriptors_of(broker) < 512
            # Far more clients than descriptors: accepting fails, and the loop does not spin.
            before, start = broker.cpu_seconds(), time.monotonic()
            for _ in range(300):
                client = socket.socket()
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", broker.port))
                clients.append(client)
            eventually(lambda: time.monotonic() - start > 3)
            assert (broker.cpu_seconds() - before) / (time.monotonic() - start) < 0.2
            for partition in partitions:
                answer = wire.produce("wide", one_record((b"k", b"third")), partition=partition)
                assert answer.error == ErrorCode.NONE
    finally:
        for client in clients:
            client.close()
    with NativeWire(broker.port) as wire:
        assert read_records(wire, "wide", partition=999)[-1].value == b"third"

"""Field case C029: a power loss leaves the small files beside the segments empty or full of NUL."""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from seglog.clients import Admin, ClientError, TopicPartition
from seglog.clients.testing import RunningBroker
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records import build_batch
from support.batches import T
from support.kafka_groups import commit_offset, committed_offset
from support.processor_time import in_time
from support.real_broker import SHORT_PERIODS, log_lines, wait_for_line
from support.wires import KafkaWire, read_records

CONFIGS: dict[str, Any] = {
    **SHORT_PERIODS,
    "log.initial.task.delay.ms": 3_600_000,
    "log.retention.ms": -1,
    "offsets.topic.num.partitions": 3,
}
PRODUCER = {"producer_id": 4711, "producer_epoch": 0}


def numbered(first: int, count: int = 5) -> list[tuple[int, bytes, bytes, tuple[()]]]:
    return [
        (T + number, b"key-%d" % number, b"%d" % number, ())
        for number in range(first, first + count)
    ]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cleanly stopped broker: 3 topics, 2 groups with commits, 1 idempotent producer."""
    folder = tmp_path_factory.mktemp("state")
    broker = RunningBroker(folder, CONFIGS)
    broker.start()
    with Admin(broker.address) as admin, KafkaWire(broker.port) as wire:
        admin.create_topic("plain", partitions=2, configs={"segment.bytes": 2000})
        admin.create_topic("idempotent", partitions=1, configs={"retention.bytes": 12345678})
        admin.create_topic("compacted", partitions=1, configs={"cleanup.policy": "compact"})
        for first in range(0, 100, 5):
            wire.produce("plain", build_batch(numbered(first)))
            wire.produce("compacted", build_batch(numbered(first % 10)))
            batch = build_batch(numbered(first), base_sequence=first, **PRODUCER)
            assert wire.produce("idempotent", batch).base_offset == first
        admin.roll("compacted")
        admin.clean("compacted", wait=True)
        admin.delete_records({TopicPartition("plain", 0): 33})
        for group, offset in (("readers", 41), ("writers", 42)):
            assert commit_offset(wire, group, "plain", offset) == ErrorCode.NONE
            assert commit_offset(wire, group, "idempotent", offset + 10) == ErrorCode.NONE
        admin.alter_configs("broker", "", {"log.cleaner.threads": 2})
        cluster_ids.append(admin.describe_cluster().cluster_id)
    assert broker.stop() == 0
    return folder


cluster_ids: list[str | None] = []


def check_all(broker: RunningBroker) -> None:
    """Nothing that was acknowledged is lost."""
    with Admin(broker.address) as admin, KafkaWire(broker.port) as wire:
        assert admin.describe_cluster().cluster_id == cluster_ids[0]
        assert set(admin.list_topics()) >= {"plain", "idempotent", "compacted"}
        topics = admin.describe_topics(["plain", "idempotent", "compacted"])
        assert len(topics["plain"].partitions) == 2
        plain = [record.offset for record in read_records(wire, "plain")]
        # Records that were deleted may come back; that is the safe side.
        assert plain[-67:] == [*range(33, 100)]
        assert plain == [*range(plain[0], 100)]
        found = read_records(wire, "idempotent")
        assert [record.value for record in found] == [b"%d" % number for number in range(100)]
        latest = {record.key: record.value for record in read_records(wire, "compacted")}
        assert latest == {b"key-%d" % number: b"%d" % number for number in range(10)}
        for group, offset in (("readers", 41), ("writers", 42)):
            assert committed_offset(wire, group, "plain") == offset
            assert committed_offset(wire, group, "idempotent") == offset + 10
        # The producer sends its last batch again: it is known, and not stored twice.
        again = wire.produce("idempotent", build_batch(numbered(95), base_sequence=95, **PRODUCER))
        assert (again.error, again.base_offset) == (ErrorCode.NONE, 95)
        following = build_batch(numbered(100), base_sequence=100, **PRODUCER)
        assert wire.produce("idempotent", following).base_offset == 100
        configs = admin.describe_configs("topic", "compacted", ["cleanup.policy"])
        assert configs["cleanup.policy"].value == "compact"
        admin.roll("compacted")
        (result,) = admin.clean("compacted", wait=True)
        assert result.state == "done"


DAMAGES: Mapping[str, Callable[[bytes], bytes]] = {
    "0 bytes": lambda _: b"",
    "NUL": lambda content: bytes(len(content)),
    "half": lambda content: content[: len(content) // 2],
    "version 99": lambda content: _with_version(content),
}


def _with_version(content: bytes) -> bytes:
    if content.startswith(b"seglog-catalog "):
        return content.replace(b"seglog-catalog 1", b"seglog-catalog 99", 1)
    if content.startswith(b"version: "):
        return b"version: 99" + content[content.index(b"\n") :]
    if b"version=" in content:
        return content.replace(b"version=0", b"version=99").replace(b"version=1\n", b"version=99\n")
    if content.startswith(b"{"):
        return b'{"version":99}'
    if content[:2] == b"\0\1":
        return b"\0\x63" + content[2:]
    return b"99" + content[1:]


SIDE_FILES = [
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "meta.properties",
    "seglog-catalog",
    "seglog-catalog.copy",
    "seglog-closed-logs",
    ".kafka_cleanshutdown",
    ".lock",
    "*-0/leader-epoch-checkpoint",
    "*-0/partition.metadata",
    "*-0/*.snapshot",
    "*-0/*.window",
    "seglog-reserve",
]
SILENT = {".lock", ".kafka_cleanshutdown", "seglog-reserve"}
"""Files whose content nobody reads."""


def test_the_list_of_side_files_is_complete(stopped: Path) -> None:
    """C029: everything that is no segment data is in the list."""
    data = stopped / "data"
    known = {path for pattern in SIDE_FILES for path in data.glob(pattern)}
    for pattern in SIDE_FILES:
        assert list(data.glob(pattern)), f"there is no {pattern}"
    left = {
        path.relative_to(data)
        for path in data.rglob("*")
        if path.is_file()
        and path not in known
        and path.suffix not in {".log", ".index", ".timeindex", ".txnindex", ".deleted"}
        and not path.parent.name.endswith(("-1", "-2"))
    }
    assert not left


@pytest.mark.slow
@pytest.mark.parametrize("pattern", SIDE_FILES)
def test_a_damaged_side_file_costs_a_longer_start_and_nothing_else(
    stopped: Path, tmp_path: Path, pattern: str
) -> None:
    """C029: one start for each of four damages; the log names file and action."""
    for name, damage in DAMAGES.items():
        folder = tmp_path / name.replace(" ", "-")
        shutil.copytree(stopped, folder)
        (folder / "broker.log").unlink()
        paths = sorted((folder / "data").glob(pattern))
        for path in paths:
            path.write_bytes(damage(path.read_bytes()))
        broker = RunningBroker(folder, CONFIGS)
        start = time.monotonic()
        try:
            broker.start()
        except ClientError:
            assert in_time(time.monotonic() - start, 5)
            check_refusal(broker, paths[0])
            continue
        try:
            check_all(broker)
            # Kafka reads a topic id whatever the version of its file, and so does seglog.
            is_legal = pattern.endswith("partition.metadata") and name == "version 99"
            if pattern not in SILENT and not is_legal:
                for path in paths:
                    wait_for_line(broker, path.name)
            assert broker.stop() == 0
            size = broker.log_file.stat().st_size
            broker.start()
            check_again(broker, size)
            assert broker.stop() == 0
        finally:
            if broker.is_running:
                broker.kill()
        shutil.rmtree(folder)


def check_refusal(broker: RunningBroker, path: Path) -> None:
    """One line that says which file, and no trace."""
    lines = [line for line in broker.log_file.read_text().splitlines() if "level=info" not in line]
    assert len(lines) == 1, lines
    assert str(path) in lines[0]
    assert "Traceback" not in lines[0]


def check_again(broker: RunningBroker, size: int) -> None:
    """The next start finds everything mended."""
    warnings = [line for line in log_lines(broker, "level=warning", size) if "odd-" not in line]
    assert warnings == []


@pytest.mark.slow
def test_a_start_survives_the_loss_of_all_side_files(stopped: Path, tmp_path: Path) -> None:
    """C029, worse: every file but the two copies of the catalog is empty, after a crash."""
    folder = tmp_path / "all"
    shutil.copytree(stopped, folder)
    for pattern in SIDE_FILES:
        if not pattern.startswith("seglog-catalog") and pattern != "meta.properties":
            for path in (folder / "data").glob(pattern):
                path.write_bytes(b"")
    (folder / "data" / ".kafka_cleanshutdown").unlink()
    broker = RunningBroker(folder, CONFIGS)
    broker.start()
    try:
        check_all(broker)
        assert broker.stop() == 0
    finally:
        if broker.is_running:
            broker.kill()


@pytest.mark.slow
def test_a_start_without_any_catalog_is_refused(stopped: Path, tmp_path: Path) -> None:
    """C029, worst: refused in one line; the folders still say which topics there are."""
    folder = tmp_path / "lost"
    shutil.copytree(stopped, folder)
    (folder / "broker.log").unlink()
    for name in ("seglog-catalog", "seglog-catalog.copy"):
        (folder / "data" / name).write_bytes(bytes(100))
    broker = RunningBroker(folder, CONFIGS)
    start = time.monotonic()
    with pytest.raises(ClientError):
        broker.start()
    assert in_time(time.monotonic() - start, 5)
    check_refusal(broker, folder / "data" / "seglog-catalog")
    # As the message says: without the files the topics are found, with all their records.
    for name in ("seglog-catalog", "seglog-catalog.copy"):
        (folder / "data" / name).unlink()
    broker.start()
    try:
        with KafkaWire(broker.port) as wire:
            assert len(read_records(wire, "idempotent")) == 100
            assert len(read_records(wire, "plain")) >= 67
            assert committed_offset(wire, "readers", "plain") == 41
        assert broker.stop() == 0
    finally:
        if broker.is_running:
            broker.kill()

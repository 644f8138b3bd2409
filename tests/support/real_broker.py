"""Settings and small questions for tests that run a real broker."""

import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.request import urlopen

from seglog.clients import Admin
from seglog.clients.testing import RunningBroker
from seglog.protocol.api import PartitionDescription
from seglog.protocol.types import TopicPartition
from support.eventually import eventually

SHORT_PERIODS = {
    "log.initial.task.delay.ms": 100,
    "log.retention.check.interval.ms": 500,
    "log.segment.delete.delay.ms": 200,
    "log.cleaner.backoff.ms": 200,
    "log.cleaner.io.buffer.size": 262144,
    "log.cleaner.dedupe.buffer.size": 1048576,
}
"""Everything that runs from time to time runs often, and the cleaner is small."""


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def describe(admin: Admin, topic: str, partition: int = 0) -> PartitionDescription:
    """One partition with its segments."""
    found = admin.describe_partitions([topic], include_segments=True)
    return found[TopicPartition(topic, partition)]


def base_offsets(admin: Admin, topic: str, partition: int = 0) -> list[int]:
    """Where the segments of a partition begin."""
    return [each.base_offset for each in describe(admin, topic, partition).segments]


def files_of(broker: RunningBroker, topic: str, partition: int = 0) -> list[str]:
    """The names in the folder of a partition."""
    folder = broker.data_directory / f"{topic}-{partition}"
    return sorted(path.name for path in folder.iterdir())


def log_lines(broker: RunningBroker, word: str, start: int = 0) -> list[str]:
    """Lines of the broker's log with a word, from a byte of the file on."""
    with broker.log_file.open("rb") as file:
        file.seek(start)
        text = file.read().decode(errors="replace")
    return [line for line in text.splitlines() if word in line]


def wait_for_line(broker: RunningBroker, *words: str, start: int = 0) -> list[str]:
    """The lines with one of ``words``, once there are any: a thread writes them out."""

    def found() -> list[str]:
        return [line for word in words for line in log_lines(broker, word, start)]

    eventually(lambda: bool(found()))
    return found()


def scrape(port: int, path: str = "/metrics") -> str:
    """The metrics as text."""
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def metric(text: str, name: str, **labels: str) -> float:
    """The value of the one series with these labels, and perhaps others; 0 if there is none."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    found = [
        line
        for line in text.splitlines()
        if line.split("{")[0].split(" ")[0] == name and all(each in line for each in wanted)
    ]
    assert name in text, f"there is no metric {name}"
    assert len(found) <= 1, found
    return float(found[0].rsplit(" ", 1)[1]) if found else 0.0


def all_files(folder: Path) -> Iterator[Path]:
    """Every file below a folder."""
    return (path for path in folder.rglob("*") if path.is_file())


def count_suffix(names: Iterable[str], suffix: str) -> int:
    """How many names end so."""
    return sum(1 for name in names if name.endswith(suffix))

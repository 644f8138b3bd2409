"""Field cases about running a broker: scraping, stopping, two processes on one directory."""

import gzip
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Self
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from seglog.clients import Admin, NewTopic
from seglog.protocol import api
from seglog.protocol.errors import ErrorCode
from seglog.protocol.records import build_batch
from support.broker_process import BrokerProcess, broker_process, serve_command
from support.eventually import eventually
from support.memory_folder import memory_folder
from support.processor_time import in_time
from support.real_broker import all_files, metric
from support.wires import WIRES, KafkaWire, NativeWire, open_wire, read_records

T = 1_700_000_000_000
CLEAN_MARKER = ".kafka_cleanshutdown"
RUN_SECONDS = 6.0


def one_record(value: bytes = b"value") -> bytearray:
    return build_batch([(T, b"key", value, ())])


# ---- C072


class Load(threading.Thread):
    """1000 records a second, one by one; notes how long each acknowledgement takes."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.stopping = threading.Event()
        self.latencies: list[float] = []
        self._port = port

    def run(self) -> None:
        batch = one_record()
        with NativeWire(self._port) as wire:
            due = time.monotonic()
            while not self.stopping.is_set():
                due += 0.001
                pause = due - time.monotonic()
                if pause > 0:
                    time.sleep(pause)
                start = time.monotonic()
                wire.produce("topic-0", batch)
                self.latencies.append(time.monotonic() - start)

    def p99(self) -> float:
        """The latency that 99 % are below."""
        return sorted(self.latencies)[int(0.99 * len(self.latencies))]


class Scraper(threading.Thread):
    """Scrapes every second; notes how long it takes, and the last text."""

    def __init__(self, port: int, seconds: float, *, compressed: bool) -> None:
        super().__init__()
        self.durations: list[float] = []
        self.longest_lag = 0.0
        self.text = ""
        self._port, self._seconds, self._compressed = port, seconds, compressed

    def run(self) -> None:
        begin = time.monotonic()
        while time.monotonic() - begin < self._seconds:
            self.scrape()
            time.sleep(max(0.0, 1.0 - self.durations[-1]))

    def scrape(self) -> None:
        """Once."""
        headers = {"Accept-Encoding": "gzip"} if self._compressed else {}
        start = time.monotonic()
        request = Request(f"http://127.0.0.1:{self._port}/metrics", headers=headers)
        with urlopen(request, timeout=10) as answer:
            body = answer.read()
        self.durations.append(time.monotonic() - start)
        self.text = (gzip.decompress(body) if self._compressed else body).decode()
        # Each scrape tells of the time since the one before it, whoever asked.
        lag = metric(self.text, "seglog_event_loop_lag_max_seconds")
        self.longest_lag = max(self.longest_lag, lag)


def under_load(
    broker: BrokerProcess, seconds: float, *, scraped: bool
) -> tuple[float, list[Scraper]]:
    """The p99 of produce, with three scrapers and one that reads nothing, or without."""
    load = Load(broker.port)
    load.start()
    scrapers = [
        Scraper(broker.metrics_port, seconds, compressed=number == 0)
        for number in range(3 if scraped else 0)
    ]
    stuck = socket.socket()
    if scraped:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(("127.0.0.1", broker.metrics_port))
        stuck.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    for scraper in scrapers:
        scraper.start()
    for scraper in scrapers:
        scraper.join()
    if not scraped:
        load.stopping.wait(seconds)
    load.stopping.set()
    load.join()
    stuck.close()
    return load.p99(), scrapers


def scrape_under_load(broker: BrokerProcess) -> list[Scraper]:
    """Scrape until the figures are as they should be, at most three times.

    While the machine is busy with other things they say nothing of the broker: an attempt counts
    only if a thread of ours that did nothing but sleep woke up in time. What a scrape costs the
    loop is measured apart, in a way that does not depend on others.
    """
    figures = []
    for _ in range(3):
        quiet, _scrapers = under_load(broker, 2.0, scraped=False)
        with Sleeper() as sleeper:
            busy, scrapers = under_load(broker, RUN_SECONDS, scraped=True)
        slowest = max(seconds for scraper in scrapers for seconds in scraper.durations)
        lag = max(scraper.longest_lag for scraper in scrapers)
        if slowest < 1 and busy - quiet < 0.050 and lag < 0.1:
            return scrapers
        figures.append((sleeper.latest, slowest, quiet, busy, lag))
    if min(figures)[0] > 0.050:
        return scrapers
    raise AssertionError(f"sleeper, slowest scrape, p99 without and with, loop lag: {figures}")


def loop_seconds_per_scrape(broker: BrokerProcess) -> float:
    """CPU time of the broker's first thread, in which its loop runs, for one scrape."""
    statistics = Path(f"/proc/{broker.process.pid}/task/{broker.process.pid}/schedstat")
    scrapes = 5
    before = int(statistics.read_text().split()[0])
    for _ in range(scrapes):
        Scraper(broker.metrics_port, 0, compressed=True).scrape()
    return (int(statistics.read_text().split()[0]) - before) / 1e9 / scrapes


class Sleeper(threading.Thread):
    """Sleeps, and notes how late it woke up at most: more than that is nobody's fault."""

    def __init__(self) -> None:
        super().__init__()
        self.latest = 0.0
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.is_set():
            start = time.monotonic()
            time.sleep(0.01)
            self.latest = max(self.latest, time.monotonic() - start - 0.01)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self.join()


def commit_all(port: int, groups: int, partitions: int) -> None:
    """Offsets of many groups, for the first topics' partitions."""
    with KafkaWire(port) as wire:
        for group in range(groups):
            offsets = [
                api.OffsetCommitPartition(f"topic-{topic}", index, 0, metadata="")
                for topic in range(partitions // 10)
                for index in range(10)
            ]
            request = api.OffsetCommitRequest(f"group-{group}", offsets)

            def commit(request: api.OffsetCommitRequest = request) -> bool:
                answer = wire.ask(request, 7, api.OffsetCommitResponse)
                return not any(each.error for each in answer.partitions)

            eventually(commit)


@pytest.fixture
def folder_in_memory() -> Iterator[Path]:
    with memory_folder() as folder:
        yield folder


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_scraping_thousands_of_partitions_disturbs_no_client(folder_in_memory: Path) -> None:
    """C072: 5000 partitions, 500 groups, 1000 records/s, 3 scrapers and a stuck one."""
    tmp_path = folder_in_memory
    with broker_process(tmp_path, "offsets.topic.num.partitions=4") as broker:
        with Admin(f"127.0.0.1:{broker.port}", request_timeout_ms=120_000) as admin:
            for first in range(0, 500, 50):
                admin.create_topics(
                    [NewTopic(f"topic-{number}", 10) for number in range(first, first + 50)]
                )
        commit_all(broker.port, groups=500, partitions=20)
        # The first scrape also reports the longest delay of all that went before.
        Scraper(broker.metrics_port, 0, compressed=False).scrape()
        assert in_time(loop_seconds_per_scrape(broker), 0.15)
        scrapers = scrape_under_load(broker)
        lines = {}
        for scraper in scrapers:
            families = list(text_string_to_metric_families(scraper.text))
            assert len(families) > 50
        text = scrapers[0].text
        assert 'kafka_log_log_size{partition="9",topic="topic-499"}' in text
        assert text.count("kafka_consumergroup_current_offset{") == 10_000
        lines["with"] = len(text.splitlines())
        assert broker.stop() == 0
    with broker_process(tmp_path, "metrics.per.partition=false") as broker:
        scraper = Scraper(broker.metrics_port, 0, compressed=False)
        scraper.scrape()
        lines["without"] = len(scraper.text.splitlines())
        assert list(text_string_to_metric_families(scraper.text))
        assert lines["without"] < 0.1 * lines["with"], lines
        assert broker.stop() == 0


# ---- C074


def fill_partitions(port: int, count: int) -> None:
    with Admin(f"127.0.0.1:{port}") as admin:
        if "wide" not in admin.list_topics():
            admin.create_topic("wide", partitions=count)
    with NativeWire(port) as wire:
        for partition in range(count):
            answer = wire.produce("wide", one_record(), partition=partition)
            assert answer.error == ErrorCode.NONE


def wait_for_records(port: int, dialect: str) -> NativeWire | KafkaWire:
    """A connection on which a fetch waits for a minute."""
    wire: NativeWire | KafkaWire = open_wire(dialect, port)
    end = wire.find("wide", -1).offset
    request = wire.fetch_request("wide", end, max_wait_ms=60_000, min_bytes=1)
    if isinstance(wire, KafkaWire):
        wire.send(request, wire.FETCH)
    else:
        wire.send(request)
    return wire


def check_stopped_well(folder: Path, records: int, log_size: int) -> None:
    """Marked as clean; the next start recovers nothing and has everything."""
    assert (folder / "data" / CLEAN_MARKER).exists()
    with broker_process(folder) as broker, open_wire("kafka", broker.port) as wire:
        for partition in (0, 77, 199):
            assert len(read_records(wire, "wide", partition=partition)) == records
        text = broker.log.read_text()[log_size:]
        assert "recovered" not in text
        assert "level=warning" not in text
        assert broker.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "signals",
    [
        (signal.SIGTERM,),
        (signal.SIGINT,),
        (signal.SIGTERM, signal.SIGTERM),
        (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP),
    ],
    ids=lambda signals: "-".join(each.name for each in signals),
)
@pytest.mark.parametrize("as_process_1", [False, True], ids=["", "as process 1"])
def test_stop_signals_end_a_busy_broker_well(
    tmp_path: Path, signals: Sequence[signal.Signals], as_process_1: bool
) -> None:
    """C074: 200 partitions with new records, 10 clients, waiting fetches on both dialects."""
    with started(tmp_path, as_process_1=as_process_1) as broker:
        clients = [open_wire(WIRES[number % 2], broker.port) for number in range(8)]
        fill_partitions(broker.port, 200)
        clients += [wait_for_records(broker.port, dialect) for dialect in WIRES]
        start = time.monotonic()
        for number in signals:
            os.kill(broker.pid, number)
        assert broker.wait() == 0
        assert in_time(time.monotonic() - start, 5)
        for client in clients:
            client.close()
        log_size = broker.log.stat().st_size
    check_stopped_well(tmp_path, 1, log_size)


class Signalled:
    """A broker, the process that signals go to, and the one whose status counts."""

    def __init__(self, broker: BrokerProcess, pid: int) -> None:
        self.port = broker.port
        self.log = broker.log
        self.pid = pid
        self._waited_for = broker.process

    def wait(self) -> int:
        """The exit status; ``unshare`` passes on that of its child."""
        return self._waited_for.wait(20)


@contextmanager
def plain_broker(folder: Path) -> Iterator[Signalled]:
    with broker_process(folder) as broker:
        yield Signalled(broker, broker.process.pid)


def started(folder: Path, *, as_process_1: bool) -> AbstractContextManager[Signalled]:
    return contained_broker(folder) if as_process_1 else plain_broker(folder)


@contextmanager
def contained_broker(folder: Path) -> Iterator[Signalled]:
    """As the entry point of a container: no shell in between, process 1."""
    unshare = ["unshare", "--pid", "--fork", "--kill-child"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("no namespace of processes can be made here")
    log = folder / "broker.log"
    with log.open("a") as errors:
        process = subprocess.Popen(
            [*unshare, *serve_command(folder)], stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("seglogd ready "), log.read_text()
        assert " pid=1 " in line
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield Signalled(BrokerProcess(process, line, log), int(children[0]))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.slow
def test_process_1_reaps_orphans(tmp_path: Path) -> None:
    """C074: what a health check or a shell in the container leaves behind does not pile up."""
    with contained_broker(tmp_path) as broker:
        if shutil.which("nsenter") is None:
            pytest.skip("there is no nsenter")
        pid = broker.pid
        for _ in range(3):
            enter = ["nsenter", "--target", str(pid), "--pid", "sh", "-c", "sleep 0.2 & exit 0"]
            subprocess.run(enter, check=True)
        children = Path(f"/proc/{pid}/task/{pid}/children")
        assert children.read_text().split()
        eventually(lambda: not children.read_text().split(), timeout=3)
        os.kill(pid, signal.SIGTERM)
        assert broker.wait() == 0


@pytest.mark.slow
def test_a_stop_while_starting_leaves_nothing_to_recover(tmp_path: Path) -> None:
    """C074: SIGTERM at 25 moments of a start over 200 partitions."""
    with broker_process(tmp_path) as broker:
        fill_partitions(broker.port, 200)
        assert broker.stop() == 0
        log_size = broker.log.stat().st_size
    for delay_ms in range(0, 500, 20):
        process = subprocess.Popen(
            serve_command(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        time.sleep(delay_ms / 1000)
        start = time.monotonic()
        process.terminate()
        _, errors = process.communicate(timeout=10)
        assert in_time(time.monotonic() - start, 5)
        assert process.returncode in (0, -signal.SIGTERM), errors
        assert b"Traceback" not in errors
        assert (tmp_path / "data" / CLEAN_MARKER).exists(), (delay_ms, errors)
    check_stopped_well(tmp_path, 1, log_size)


@pytest.mark.slow
def test_a_stop_with_a_thousand_dirty_partitions_is_quick(tmp_path: Path) -> None:
    """C074 with five times as much to flush."""
    with broker_process(tmp_path) as broker:
        fill_partitions(broker.port, 1000)
        start = time.monotonic()
        assert broker.stop() == 0
        assert in_time(time.monotonic() - start, 10)
        assert (tmp_path / "data" / CLEAN_MARKER).exists()


# ---- C076


def checksums(folder: Path) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in all_files(folder)}


def refused_start(folder: Path, *prefix: str) -> str:
    """Start on a directory that is in use; what it says."""
    command = [*prefix, *serve_command(folder)]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    assert in_time(time.monotonic() - start, 2)
    assert done.returncode not in (0, None)
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if "level=info" not in line]
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[BrokerProcess]:
    # Its own checkpoints would be a change, too.
    quiet = "replica.high.watermark.checkpoint.interval.ms=3600000"
    with broker_process(tmp_path, quiet) as broker:
        with Admin(f"127.0.0.1:{broker.port}") as admin, NativeWire(broker.port) as wire:
            admin.create_topic("held", partitions=3)
            wire.produce("held", one_record())
        yield broker


@pytest.mark.slow
def test_a_second_broker_is_refused_and_touches_nothing(
    tmp_path: Path, holder: BrokerProcess
) -> None:
    """C076: directly, through a symlink, as another path, and from another namespace."""
    before = checksums(tmp_path / "data")
    other = tmp_path / "other"
    other.mkdir()
    (other / "data").symlink_to(tmp_path / "data")
    (tmp_path / "inside").mkdir()
    dotted = tmp_path / "inside" / ".."
    for folder in (tmp_path, other, dotted):
        line = refused_start(folder)
        assert ".lock" in line
        assert str(holder.process.pid) in line
    if shutil.which("unshare") is not None and os.geteuid() == 0:
        assert ".lock" in refused_start(tmp_path, "unshare", "--pid", "--fork", "--mount")
    assert checksums(tmp_path / "data") == before
    with NativeWire(holder.port) as wire:
        assert wire.produce("held", one_record()).base_offset == 1


@pytest.mark.slow
def test_of_several_brokers_at_once_one_runs(tmp_path: Path) -> None:
    """C076: at the same moment; with and without an empty directory."""
    for _ in range(4):
        processes = [
            subprocess.Popen(
                serve_command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for _ in range(4)
        ]
        eventually(lambda each=processes: sum(p.poll() is None for p in each) == 1)
        (winner,) = [process for process in processes if process.poll() is None]
        assert winner.stdout is not None
        assert winner.stdout.readline().startswith("seglogd ready ")
        for process in processes:
            if process is winner:
                process.terminate()
            _, errors = process.communicate(timeout=10)
            assert process.returncode == (0 if process is winner else 1), errors
            assert "Traceback" not in errors


@pytest.mark.slow
def test_a_lock_left_by_a_killed_broker_does_not_block_a_start(tmp_path: Path) -> None:
    """C076: the kernel's lock counts, not what the file says."""
    with broker_process(tmp_path) as broker:
        with Admin(f"127.0.0.1:{broker.port}") as admin, NativeWire(broker.port) as wire:
            admin.create_topic("held", partitions=1)
            wire.produce("held", one_record())
        broker.process.kill()
        broker.process.wait()
    lock = tmp_path / "data" / ".lock"
    contents: list[bytes | None] = [
        None,  # as it was left, with the number of a dead process
        b"1\n",  # a process that runs, but is no broker
        str(os.getpid()).encode(),
        b"",
        b"not a number",
        bytes(4096),
    ]
    for number, content in enumerate(contents, start=1):
        if content is not None:
            lock.write_bytes(content)
        with broker_process(tmp_path) as broker:
            with open_wire("kafka", broker.port) as wire:
                assert wire.produce("held", one_record()).base_offset == number
            assert ".lock" in refused_start(tmp_path)
            broker.process.kill()
            broker.process.wait()
    lock.unlink()
    with broker_process(tmp_path) as broker:
        assert broker.stop() == 0


def test_a_command_line_with_a_file_for_a_folder_is_refused(tmp_path: Path) -> None:
    """The other way to take the wrong directory: it is a file."""
    (tmp_path / "data").write_text("not a folder")
    command = serve_command(tmp_path)
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 1
    assert str(tmp_path / "data") in done.stderr
    assert "Traceback" not in done.stderr

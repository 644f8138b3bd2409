"""Clients that speak something else, and too many of them: nobody else may notice."""

import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from seglog.protocol import api
from seglog.protocol.native import NativeClient
from support.broker_process import BlockingClient, BrokerProcess, broker_process
from support.eventually import eventually
from support.processor_time import in_time

CLOSED_WITHIN_SECONDS = 1.0
MEGABYTE = 1024 * 1024


def hello() -> bytes:
    return NativeClient("stranger").hello()


def native_frame(header: bytes) -> bytes:
    return hello() + struct.pack(">II", 4 + len(header), len(header)) + header


STRANGERS = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": bytes.fromhex("16030100f4010000f00303"),
    "http-2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "proxy-1": b"PROXY TCP4 192.0.2.1 192.0.2.2 40000 9092\r\n",
    "proxy-2": b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c",
    "postgres": struct.pack(">ii", 8, 80877103),
    "remote-desktop": bytes.fromhex("0300002f2ae00000000000"),
    "cassandra": bytes.fromhex("040000000500000000"),
    "redis": b"*1\r\n$4\r\nPING\r\n",
    "size-minus-one": struct.pack(">i", -1),
    "size-zero": struct.pack(">i", 0),
    "size-three": struct.pack(">i", 3),
    "size-max": struct.pack(">i", 0x7FFFFFFF),
    "raw-array": b"\xdd\xff\xff\xff\xff",
    "native-array": native_frame(b"\xdd\xff\xff\xff\xff"),
    "native-map": native_frame(b"\xdf\xff\xff\xff\xff"),
    "native-bin": native_frame(b"\xc6\xff\xff\xff\xff"),
    "native-nested": native_frame(b"\x91" * 100_000),
    "native-inner-array": native_frame(b"\x97\x00\x00\x01\x01\x01\xdd\xff\xff\xff\xff\xc0"),
}
KAFKA_COUNTS = {
    "kafka-produce": bytes.fromhex("0000 0003 00000001 ffff ffff 0001 00000001 7fffffff"),
    "kafka-fetch": bytes.fromhex("0001 0004 00000001 ffff ffffffff 00000001 00000001 00000001"
                                 "00 7fffffff"),
    "kafka-metadata": bytes.fromhex("0003 0001 00000001 ffff 7fffffff"),
}  # fmt: skip
STRANGERS |= {
    name: struct.pack(">i", len(request)) + request for name, request in KAFKA_COUNTS.items()
}


class Poller(threading.Thread):
    """A normal client that asks all the time and notes how long answers take."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.slowest_seconds = 0.0
        self.error: Exception | None = None
        self._port = port
        self._is_done = threading.Event()

    def run(self) -> None:
        """Ask until told to stop."""
        try:
            with BlockingClient(self._port) as client:
                while not self._is_done.wait(0.002):
                    started = time.monotonic()
                    client.ask(api.MetadataRequest())
                    self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - started)
        except (OSError, AssertionError) as error:
            self.error = error

    def finish(self) -> None:
        """Stop asking; no answer may have failed or taken long."""
        self._is_done.set()
        self.join()
        if self.error is not None:
            raise self.error


@contextmanager
def held_sockets(port: int, first_bytes: bytes, count: int) -> Iterator[list[socket.socket]]:
    """Connections that have sent something and are held open."""
    with ExitStack() as stack:
        sockets = []
        for _ in range(count):
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            stranger.sendall(first_bytes)
            sockets.append(stranger)
        yield sockets


def wait_closed(stranger: socket.socket, deadline: float) -> bool:
    try:
        while True:
            stranger.settimeout(max(0.001, deadline - time.monotonic()))
            if not stranger.recv(65_536):
                return True
    except ConnectionError:
        return True
    except TimeoutError:
        return False


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One daemon for all strangers."""
    with broker_process(tmp_path_factory.mktemp("strangers")) as running:
        yield running
        assert running.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", STRANGERS)
def test_stranger_costs_memory_or_time(name: str, broker: BrokerProcess) -> None:
    """C034: 200 sockets of a kind are closed within a second; 20 MB, one log line, no pause."""
    poller = Poller(broker.port)
    poller.start()
    try:
        before = broker.resident_bytes()
        lines_before = broker.log.read_text().count("\n")
        with held_sockets(broker.port, STRANGERS[name], 200) as sockets:
            deadline = time.monotonic() + CLOSED_WITHIN_SECONDS
            left = [each for each in sockets if not wait_closed(each, deadline)]
        assert not left
        assert broker.resident_bytes() - before < 20 * MEGABYTE
    finally:
        poller.finish()
    assert in_time(poller.slowest_seconds, 0.2)
    log = broker.log.read_text()
    assert log.count("\n") - lines_before <= 2, log
    assert "Traceback" not in log


@pytest.mark.slow
def test_announced_frames_are_allocated(tmp_path: Path) -> None:
    """200 sockets that each announce a frame of 100 MB and send a little of it."""
    announced = hello() + struct.pack(">I", 100_000_000) + bytes(1000)
    with broker_process(tmp_path) as broker:
        before = broker.resident_bytes()
        with held_sockets(broker.port, announced, 200):
            with BlockingClient(broker.port) as client:
                client.ask(api.MetadataRequest())
            assert broker.resident_bytes() - before < 20 * MEGABYTE
        assert broker.stop() == 0


@pytest.mark.slow
def test_descriptors_run_out(tmp_path: Path) -> None:
    """C032: who comes too late is turned away; clients that are in go on, and nothing spins."""

    def limit_descriptors() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))

    with (
        broker_process(tmp_path, preexec_fn=limit_descriptors) as broker,
        BlockingClient(broker.port) as client,
    ):
        with ExitStack() as stack:
            for _ in range(300):
                stranger = stack.enter_context(socket.socket())
                stranger.setblocking(False)
                stranger.connect_ex(("127.0.0.1", broker.port))
            client.ask(api.MetadataRequest())
            before, started = broker.cpu_seconds(), time.monotonic()
            time.sleep(1.5)
            share = (broker.cpu_seconds() - before) / (time.monotonic() - started)
            assert share < 0.2
            client.ask(api.MetadataRequest())
            assert "limit=open-files" in broker.log.read_text()
            assert broker.log.read_text().count("limit=open-files") <= 2
        # As soon as the daemon has noticed that the strangers are gone, and not before.
        eventually(lambda: is_served(broker.port))
        assert broker.stop() == 0


def is_served(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as late:
        try:
            late.sendall(hello())
            return bool(late.recv(1))
        except ConnectionError:
            return False

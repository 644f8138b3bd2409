"""``seglogd serve`` as a process of its own, with everything about it that a test may look at."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from seglog.protocol.native import FrameAssembler, NativeClient
from support.processor_time import process_seconds

READY_SECONDS = 20
STOP_SECONDS = 20


class BrokerProcess:
    """A daemon that was started and has said that it is ready."""

    def __init__(self, process: "subprocess.Popen[str]", ready_line: str, log: Path) -> None:
        self.process = process
        self.ready_line = ready_line
        self.log = log
        self.port = int(self.field("port"))
        self.metrics_port = int(self.field("metrics_port"))

    def field(self, name: str) -> str:
        """A value of the line that it printed when it was ready."""
        found = re.search(rf"\b{name}=(\S+)", self.ready_line)
        assert found, self.ready_line
        return found[1]

    def resident_bytes(self) -> int:
        """Its memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found
        return int(found[1]) * 1024

    def cpu_seconds(self) -> float:
        """What it has computed so far, in user and system mode."""
        return process_seconds(self.process.pid)

    def stop(self, *signals: signal.Signals) -> int:
        """Send signals and wait for the end; the exit status."""
        for number in signals or (signal.SIGTERM,):
            self.process.send_signal(number)
        return self.process.wait(STOP_SECONDS)


def serve_command(folder: Path, *overrides: str) -> list[str]:
    """The command line of a daemon on free ports with its data in ``folder``."""
    settings = [
        "listeners=PLAINTEXT://127.0.0.1:0",
        "metrics.listener=127.0.0.1:0",
        f"log.dirs={folder / 'data'}",
        *overrides,
    ]
    command = [sys.executable, "-m", "seglog.broker", "serve"]
    for setting in settings:
        command += ["--override", setting]
    return command


@contextmanager
def broker_process(
    folder: Path, *overrides: str, arguments: tuple[str, ...] = (), **options: Any
) -> Iterator[BrokerProcess]:
    """Run a daemon for the time of a ``with`` block; it is killed if it was not stopped."""
    log = folder / "broker.log"
    command = [*serve_command(folder, *overrides), *arguments]
    with log.open("a") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, **options
        )
    try:
        assert process.stdout is not None
        ready_line = process.stdout.readline()
        assert ready_line.startswith("seglogd ready "), log.read_text()
        yield BrokerProcess(process, ready_line, log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


class BlockingClient:
    """A native client over a blocking socket."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.native = NativeClient("blocking-test-client")
        self._assembler = FrameAssembler(self.native.frame_size)
        self.socket.sendall(self.native.hello())
        assert self.receive() is not None

    def send(self, request: Any) -> None:
        """Send a request."""
        self.socket.sendall(b"".join(self.native.encode_request(request)[1]))  # type: ignore[arg-type] # all parts are bytes

    def receive(self) -> Any:
        """The next answer, decoded; None at the end of the connection."""
        while (frame := self._assembler.next_frame()) is None:
            try:
                count = self.socket.recv_into(self._assembler.get_buffer())
            except ConnectionError:
                return None
            if count == 0:
                return None
            self._assembler.advance(count)
        return self.native.decode(*frame)

    def ask(self, request: Any) -> Any:
        """The response to a request."""
        self.send(request)
        answer = self.receive()
        assert answer is not None, "the broker closed the connection"
        return answer.response

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

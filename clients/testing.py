"""A real broker for tests of programs that use seglog: its own process, port and folder.

with running_broker() as broker, Producer(broker.address) as producer:
    producer.send("topic", b"value").result(10)
"""

import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from seglog.clients.admin import ConfigValue, config_text
from seglog.clients.errors import ClientError, ClientTimeoutError

START_TIMEOUT_S: Final = 10.0
STOP_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.01
_HOST: Final = "127.0.0.1"


class RunningBroker:
    """One broker process and its data; made by ``running_broker``.

    Attributes:
        address: for ``bootstrap_servers``; the same after a restart.
        port: the port in it.
        data_directory: where the logs are.
        log_file: what the broker has written about itself.
    """

    def __init__(self, folder: Path, configs: Mapping[str, ConfigValue]) -> None:
        self.port = _free_port()
        self.address = f"{_HOST}:{self.port}"
        self.data_directory = folder / "data"
        self.log_file = folder / "broker.log"
        settings: dict[str, ConfigValue] = {
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": str(self.data_directory),
            "metrics.listener": "",
        }
        settings.update(configs)
        overrides = [f"{key}={config_text(value)}" for key, value in settings.items()]
        self._command = [sys.executable, "-m", "seglog.broker", "serve"]
        for override in overrides:
            self._command += ["--override", override]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether there is a process that was not stopped or killed through this object."""
        return self._process is not None

    @property
    def process_id(self) -> int:
        """Of the running process; raises ``ClientError`` if there is none."""
        return self._running().pid

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start the process and wait until it listens.

        Raises:
            ClientError: it ended instead; with the last lines of its log.
            ClientTimeoutError: it does not listen in time; it is killed.
        """
        if self._process is not None:
            raise ClientError(f"the broker at {self.address} runs already")
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        deadline_s = time.monotonic() + timeout_s
        while not _listens(self.port):
            if self._process.poll() is not None:
                status, self._process = self._process.returncode, None
                raise ClientError(f"the broker ended with status {status}:\n{self._log_tail()}")
            if time.monotonic() >= deadline_s:
                self.kill()
                raise ClientTimeoutError(
                    f"the broker does not listen at {self.address} after {timeout_s} s:\n"
                    f"{self._log_tail()}"
                )
            time.sleep(_POLL_S)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Ask the process to end, wait, and return its exit status.

        Raises:
            ClientTimeoutError: it does not end in time; it is killed.
        """
        process = self._running()
        process.terminate()
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise ClientTimeoutError(f"the broker did not end within {timeout_s} s") from error
        self._process = None
        return status

    def kill(self) -> None:
        """End the process as a crash does."""
        process = self._running()
        process.kill()
        process.wait()
        self._process = None

    def pause(self) -> None:
        """Stop the process where it is; the system still accepts connections for it."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._running().send_signal(signal.SIGCONT)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ClientError(f"the broker at {self.address} does not run")
        return self._process

    def _log_tail(self) -> str:
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-20:])


@contextlib.contextmanager
def running_broker(
    *,
    configs: Mapping[str, ConfigValue] | None = None,
    folder: Path | str | None = None,
    start_timeout_s: float = START_TIMEOUT_S,
) -> Iterator[RunningBroker]:
    """Run a broker on a free port for the time of a ``with`` block.

    Args:
        configs: settings by their names in ``server.properties``.
        folder: for its data and log, kept afterwards; None takes a temporary one.
        start_timeout_s: how long it may take to listen.

    Raises:
        ClientError: it does not start; with the last lines of its log.
    """
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = tempfile.mkdtemp(prefix="seglog-test-")
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        broker = RunningBroker(place, configs or {})
        broker.start(start_timeout_s)
        try:
            yield broker
        finally:
            if broker.is_running:
                broker.resume()
                broker.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        if probe.connect_ex((_HOST, port)) != 0:
            return False
        # Nobody listens, but the system chose this very port for our end: TCP then connects the
        # socket with itself.
        return bool(probe.getsockname() != probe.getpeername())

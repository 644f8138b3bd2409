"""A real broker for tests of programs that use seglog: its own process, port and folder.

with running_broker() as broker, Producer(broker.address) as producer:
    producer.send("topic", b"value").result(10)
"""

import contextlib
import re
import shutil
import signal
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
_READY: Final = re.compile(r"^seglogd ready port=(\d+) .*\bpid=(\d+)\b", re.MULTILINE)
_PORT_TAKEN: Final = "Address already in use"


class RunningBroker:
    """One broker process and its data; made by ``running_broker``.

    Attributes:
        port: where it listens, the same after a restart; 0 before the first start.
        data_directory: where the logs are.
        log_file: what the broker has written about itself.
    """

    def __init__(self, folder: Path, configs: Mapping[str, ConfigValue]) -> None:
        self.port = 0
        self.data_directory = folder / "data"
        self.log_file = folder / "broker.log"
        self._configs = dict(configs)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """``host:port``; the port is chosen by the first start and stays the same."""
        return f"{_HOST}:{self.port}"

    def _command(self) -> list[str]:
        settings: dict[str, ConfigValue] = {
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": str(self.data_directory),
            "metrics.listener": "",
        }
        settings.update(self._configs)
        command = [sys.executable, "-m", "seglog.broker", "serve"]
        for key, value in settings.items():
            command += ["--override", f"{key}={config_text(value)}"]
        return command

    @property
    def is_running(self) -> bool:
        """Whether there is a process, paused or not."""
        return self._process is not None and self._process.poll() is None

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
        if self.is_running:
            raise ClientError(f"the broker at {self.address} runs already")
        deadline_s = time.monotonic() + timeout_s
        while not self._try_to_start(deadline_s):
            # Another process got the port since we had it, or a client that looked for us there.
            time.sleep(_POLL_S)

    def _try_to_start(self, deadline_s: float) -> bool:
        """Start the process; False if it could not have its port."""
        with self.log_file.open("ab") as log:
            log_begin = log.tell()
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                self._command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        try:
            while (port := self._ready_port(process, log_begin)) is None:
                time.sleep(_POLL_S)
                self._check_time(deadline_s)
        except BaseException:
            # Too late, Ctrl-C, a time limit of the test: no other code knows the process.
            process.kill()
            process.wait()
            raise
        if port == 0:
            self._check_time(deadline_s)
            return False
        self.port = port
        self._process = process
        return True

    def _ready_port(self, process: "subprocess.Popen[bytes]", log_begin: int) -> int | None:
        """Where the process listens, by its own word: None not yet, 0 its port was taken.

        Another process may listen there.
        """
        status = process.poll()
        with self.log_file.open("rb") as log:
            log.seek(log_begin)
            text = log.read().decode(errors="replace")
        if status is not None:
            if _PORT_TAKEN in text:
                return 0
            raise ClientError(f"the broker ended with status {status}:\n{_tail(text)}")
        for port, process_id in _READY.findall(text):
            if int(process_id) == process.pid:
                return int(port)
        return None

    def _check_time(self, deadline_s: float) -> None:
        if time.monotonic() >= deadline_s:
            text = self.log_file.read_text(errors="replace")
            raise ClientTimeoutError(f"the broker is not ready in time:\n{_tail(text)}")

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Ask the process to end, wait, and return its exit status.

        Raises:
            ClientTimeoutError: it does not end in time; it is killed.
        """
        process = self._running()
        process.terminate()
        process.send_signal(signal.SIGCONT)  # A paused process hears nothing else.
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


def _tail(text: str) -> str:
    return "\n".join(text.splitlines()[-20:])


@contextlib.contextmanager
def running_broker(
    *,
    configs: Mapping[str, ConfigValue] | None = None,
    folder: Path | str | None = None,
    start_timeout_s: float = START_TIMEOUT_S,
) -> Iterator[RunningBroker]:
    """Run a broker on a free port for the time of a ``with`` block; then nothing of it is left.

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
                broker.stop()

"""The daemon as a process: event loop, signals, exit status."""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from typing import Final

from seglog.broker.daemon.app import Broker
from seglog.broker.listeners.network import AddressUnavailableError
from seglog.broker.runtime.garbage import GarbageCollection
from seglog.broker.runtime.line_output import STANDARD_ERROR, STANDARD_OUTPUT
from seglog.broker.storage.errors import StorageError
from seglog.config import BrokerConfig, ConfigError

logger = logging.getLogger(__name__)

_INIT_PROCESS: Final = 1
FAILED_STATUS: Final = 1
CONFIG_STATUS: Final = 2
_SWITCH_SECONDS: Final = 0.001
"""How long a thread may keep the interpreter while the loop waits for it; 5 ms by default, which
the loop would wait after each of its system calls while metrics are rendered."""

LoadConfig = Callable[[], BrokerConfig]


def run_until_stopped(config: BrokerConfig, load_config: LoadConfig) -> int:
    """Run a broker until a signal ends it; returns the exit status.

    Args:
        config: of the broker.
        load_config: reads it again, for SIGHUP.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    raise_descriptor_limit()
    if os.getpid() == _INIT_PROCESS:
        # In a container, processes that lost their parent become children of process 1. Ignored
        # ones are reaped by the kernel; the daemon has no children whose status it would miss.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_Daemon(config, load_config).run())


def raise_descriptor_limit() -> None:
    """Raise the soft limit to the hard one, which this process may use anyway.

    Soft limits are low, 1024 in most places, for the sake of programs that use ``select``. A
    refusal is logged and harmless: the limit stays.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        # Some systems name no hard limit and still refuse more than one of the kernel's.
        logger.warning("event=descriptor-limit-kept soft=%d hard=%d error=%s", soft, hard, error)
    else:
        logger.info("event=descriptor-limit-raised from=%d to=%d", soft, hard)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None  # the event loop of the standard library does it too, more slowly
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


class _Daemon:
    """A broker, and the effects of signals on it."""

    def __init__(self, config: BrokerConfig, load_config: LoadConfig) -> None:
        self._config = config
        self._load_config = load_config
        self._broker: Broker | None = None
        self._stop_asked = asyncio.Event()

    async def run(self) -> int:
        """Start, wait for the end, stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ask_to_stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        broker = self._broker = Broker(self._config)
        stop_asked = loop.create_task(self._stop_asked.wait(), name="stop-signal")
        starting = loop.create_task(broker.start(), name="start")
        await asyncio.wait([starting, stop_asked], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            return await _give_up_start(starting)
        status = _status_of_start(starting)
        if status is not None:
            stop_asked.cancel()
            return status
        garbage_collection = GarbageCollection(loop)
        garbage_collection.start()
        _announce(broker)
        broker.failed.add_done_callback(lambda _: self._stop_asked.set())
        await stop_asked
        garbage_collection.stop()
        notify("STOPPING=1")
        if broker.failed.done():
            logger.error('event=cannot-go-on reason="%s"', broker.failed.result())
        await broker.stop()
        return FAILED_STATUS if broker.failed.done() else 0

    def _ask_to_stop(self, number: signal.Signals) -> None:
        if self._stop_asked.is_set():
            logger.info("event=signal signal=%s ignored=already-stopping", number.name)
            return
        logger.info("event=signal signal=%s", number.name)
        self._stop_asked.set()

    def _reload(self) -> None:
        """SIGHUP: read the configuration again, and apply the keys that may change at run time."""
        broker = self._broker
        if broker is None or not broker.status.is_ready:
            logger.info("event=signal signal=SIGHUP ignored=not-running")
            return
        try:
            broker.reload(self._load_config())
        except ConfigError as error:
            logger.warning('event=config-not-reloaded error="%s"', error)


async def _give_up_start(starting: "asyncio.Task[None]") -> int:
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    return 0


def _status_of_start(starting: "asyncio.Task[None]") -> int | None:
    """The exit status of a start that failed, with one line about it; None if it went well."""
    error = starting.exception()
    match error:
        case None:
            return None
        case ConfigError():
            status = CONFIG_STATUS
        case AddressUnavailableError() | StorageError():
            status = FAILED_STATUS
        case _:
            logger.error("event=start-failed", exc_info=error)
            return FAILED_STATUS
    STANDARD_ERROR.write(f"seglogd: {error}")
    return status


def _announce(broker: Broker) -> None:
    """Tell scripts and the service manager that requests are served, and where."""
    listeners = ",".join(
        str(listener.endpoint._replace(port=listener.port)) for listener in broker.network.listeners
    )
    line = (
        f"seglogd ready port={broker.port} listeners={listeners} "
        f"metrics_port={broker.metrics_port or '-'} pid={os.getpid()} "
        f"seconds={broker.status.start_seconds:.3f}"
    )
    STANDARD_OUTPUT.write(line)
    notify("READY=1")


def notify(state: str) -> bool:
    """Send ``READY=1`` or ``STOPPING=1`` to systemd (sd_notify); False if it was not sent.

    Without a service manager, that is without ``NOTIFY_SOCKET``, nothing happens.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract socket
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.connect(address)
            channel.sendall(state.encode())
    except OSError as error:
        logger.warning('event=notify-failed state=%s error="%s"', state, error)
        return False
    return True

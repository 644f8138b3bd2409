"""Broker: the composition root. Everything is made here, in order, and stopped in reverse.

status, HTTP side        first up, last down: health can be asked for during recovery
data directories, logs   locked and read; closed with the clean-shutdown marker
workers, partitions
scheduled tasks, cleaner
groups, producer ids
listeners                last up, first down
"""

import asyncio
import contextlib
import logging
import time
from functools import partial
from types import TracebackType
from typing import Final, Self

from seglog.broker.api.operations import build_handlers
from seglog.broker.cleaning.log_cleaner import LogCleaner
from seglog.broker.coordinator.coordination import Coordination
from seglog.broker.listeners.network import AddressUnavailableError, Network, bind_endpoints
from seglog.broker.listeners.offered import api_keys_of
from seglog.broker.listeners.ops_http import OpsHttp
from seglog.broker.monitoring.pages import OpsPages, sources_of, troubles_of
from seglog.broker.monitoring.status import BrokerState, BrokerStatus
from seglog.broker.requests.services import Services
from seglog.broker.runtime.broker_workers import Workers
from seglog.broker.runtime.clock import Clock, SystemClock
from seglog.broker.runtime.loop_lag import LoopLag
from seglog.broker.runtime.loop_load import LoopLoad
from seglog.broker.runtime.scheduler import AsyncioScheduler, Scheduler
from seglog.broker.runtime.traffic import Traffic
from seglog.broker.runtime.workers import WorkerPool, run_parallel
from seglog.broker.storage.directories.load_progress import LoadProgress
from seglog.broker.storage.directories.log_manager import LogManager
from seglog.broker.storage.directories.parallel import RunParallel
from seglog.broker.storage.directories.topic_catalog import TopicCatalog
from seglog.broker.storage.errors import StorageError
from seglog.broker.storage.files.file_system import FileSystem, OsFileSystem
from seglog.broker.version import VERSION
from seglog.config import BrokerConfig
from seglog.protocol.records import kernel

logger = logging.getLogger(__name__)

CLEANER_TASK: Final = "log-cleaner"
PROGRESS_SECONDS: Final = 5.0
"""How often a start that takes long says how far it is."""
FLUSH_SECONDS: Final = 20.0
"""How long the last flush may take beyond ``shutdown.timeout.ms`` before it is given up."""
CLOSING_THREADS: Final = 8
"""At least so many logs are flushed at a time when the broker stops."""
_NETWORK_SHARE: Final = 0.6
"""Share of the time for stopping in which connections may finish their requests."""


class Broker:
    """One broker in this event loop.

    async with Broker(config) as broker:
        ... broker.port ...

    Args:
        config: of the broker.
        clock: where the time comes from.
        file_system: where the logs are.

    Attributes:
        status: in which part of its life it is.
        failed: resolved with the reason when the broker cannot go on and should be stopped.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        file_system: FileSystem | None = None,
    ) -> None:
        self.status = BrokerStatus(time.monotonic())
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._config = config
        self._clock = clock or SystemClock()
        self._file_system = file_system or OsFileSystem()
        self._traffic = Traffic()
        self._parts = contextlib.AsyncExitStack()
        self._services: Services | None = None
        self._network: Network | None = None
        self._http: OpsHttp | None = None
        self._stop_by = 0.0
        self._is_stopping = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def port(self) -> int:
        """The port of the first listener; the real one where the configuration says 0."""
        return self.network.listeners[0].port

    @property
    def metrics_port(self) -> int | None:
        """The port of the HTTP side, None if that is off."""
        return self._http.port if self._http is not None else None

    @property
    def network(self) -> Network:
        """Its listeners; only while it runs."""
        assert self._network is not None, "the broker has not been started"
        return self._network

    @property
    def services(self) -> Services:
        """The services of its operations; only while it runs."""
        assert self._services is not None, "the broker has not been started"
        return self._services

    async def start(self) -> None:
        """Open the logs, after a crash with recovery, and serve.

        Raises:
            AddressUnavailableError: a listener cannot have its address.
            StorageError: the data directories cannot be used, or another broker uses them.
            ConfigError: a topic's settings contradict those of the broker.
        """
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        status = self.status
        status.start_seconds = time.monotonic() - status.started_at
        status.state = BrokerState.RUNNING
        logger.info(
            "event=started node_id=%d cluster_id=%s partitions=%d seconds=%.3f",
            self.services.node_id,
            self.services.cluster_id,
            len(self.services.partitions),
            status.start_seconds,
        )

    async def stop(self) -> None:
        """Finish requests in flight, flush, and mark the data as complete. Idempotent."""
        if self._is_stopping:
            return
        self._is_stopping = True
        started_at = time.monotonic()
        self._stop_by = started_at + self._config.shutdown_timeout_ms / 1000
        self.status.state = BrokerState.SHUTTING_DOWN
        await self._parts.aclose()
        self.status.state = BrokerState.NOT_RUNNING
        logger.info("event=stopped seconds=%.3f", time.monotonic() - started_at)

    def reload(self, static: BrokerConfig) -> None:
        """Take over the keys that may change at run time from a configuration read anew."""
        from seglog.broker.daemon.config_reload import reloaded

        self.services.change_config(reloaded(self.services.config, static))

    async def _start(self) -> None:
        config = self._config
        _warn_of_settings(config)
        bound = bind_endpoints(config)
        for each in bound:
            self._parts.callback(each.close)
        workers = Workers(self._loop)
        loop_lag = LoopLag(self._loop)
        loop_lag.start()
        self._parts.callback(loop_lag.stop)
        pages = OpsPages(self.status, loop_lag, workers.background.run)
        await self._start_http(pages)
        logs = LogManager(config, self._file_system)
        pages.watch_recovery(logs.load_progress)
        catalog = logs.open()
        config = self._restore_dynamic(config, catalog)
        workers.background.resize(config.background_threads)
        await self._load_logs(logs, config)
        self._parts.push_async_callback(self._stop_workers, workers)
        services = Services.build(
            config, self._clock, logs, catalog, workers, self._no_directory_left
        )
        self._services = services
        services.config_listeners.append(
            lambda changed: workers.background.resize(changed.background_threads)
        )
        self._parts.callback(services.partitions.close)
        scheduler = await self._start_tasks(services)
        handlers = build_handlers(services)
        coordination = Coordination(services, scheduler)
        coordination.register(handlers)
        coordination.start()
        self._parts.push_async_callback(self._stop_coordination, coordination)
        network = Network(
            config,
            bound,
            handlers,
            implemented=api_keys_of(handlers.request_types),
            software_version=VERSION,
            traffic=self._traffic,
        )
        services.config_listeners.append(network.update_config)
        self._parts.push_async_callback(self._stop_network, network, services, coordination)
        network.start()
        self._network = network
        load = LoopLoad(self._loop, network.busy_times)
        load.start()
        self._parts.callback(load.stop)
        pages.sources += sources_of(network, services, coordination, load)
        pages.troubles = partial(troubles_of, services)

    async def _start_http(self, pages: OpsPages) -> None:
        address = self._config.metrics_listener
        if address is None:
            return
        http = OpsHttp(address, pages.pages())
        try:
            await http.start()
        except OSError as error:
            raise AddressUnavailableError(f"metrics.listener={address}", error) from error
        self._http = http
        self._parts.push_async_callback(http.stop)

    def _restore_dynamic(self, config: BrokerConfig, catalog: TopicCatalog) -> BrokerConfig:
        restored, errors = config.restore_dynamic(catalog.dynamic, catalog.dynamic_defaults)
        for error in errors:
            logger.warning('event=dynamic-config-ignored error="%s"', error)
        return restored

    async def _load_logs(self, logs: LogManager, config: BrokerConfig) -> None:
        """Read the logs in a thread: after a crash this takes time, and health is asked for."""
        self.status.state = BrokerState.RECOVERY
        threads = config.num_recovery_threads_per_data_dir * len(config.log_dirs)
        in_threads = partial(run_parallel, threads=threads)
        pool = WorkerPool("load-logs", 1, self._loop)
        loading = pool.run(partial(logs.load, in_threads, self._clock.time_ms(), config))
        try:
            await self._watch_loading(loading, logs.load_progress)
        except asyncio.CancelledError:
            # Told to stop meanwhile. The logs cannot be closed while a thread reads them.
            grace = self._config.shutdown_timeout_ms / 1000
            await asyncio.wait([loading], timeout=grace)
            if loading.done():
                logs.close(in_threads, clean=loading.exception() is None)
            else:
                logger.warning("event=recovery-abandoned")
            raise
        except BaseException:
            logs.close(in_threads, clean=False)
            raise
        # A stop mostly waits for syncs, and those that come together share their effort.
        in_more_threads = partial(run_parallel, threads=max(threads, CLOSING_THREADS), name="close")
        self._parts.push_async_callback(self._close_logs, logs, in_more_threads)
        await pool.stop(1.0)

    async def _watch_loading(self, loading: "asyncio.Future[None]", progress: LoadProgress) -> None:
        """Wait until the logs are loaded; say every few seconds how far that is."""
        begun_at = time.monotonic()
        while not (await asyncio.wait([loading], timeout=PROGRESS_SECONDS))[0]:
            for each in progress.read():
                if each.logs_remaining:
                    logger.info(
                        "event=recovery-progress directory=%s logs=%d/%d bytes=%d seconds=%.0f",
                        each.directory,
                        each.logs_done,
                        each.logs_total,
                        each.bytes_done,
                        time.monotonic() - begun_at,
                    )
        await loading

    async def _start_tasks(self, services: Services) -> Scheduler:
        config, workers = services.config, services.workers
        scheduler = AsyncioScheduler(self._loop)
        self._parts.push_async_callback(self._stop_scheduler, scheduler)
        services.background.schedule(scheduler, config)
        if not config.log_cleaner_enable:
            return scheduler
        cleaner = LogCleaner(
            config,
            services.logs,
            self._file_system,
            self._clock,
            run_in_directory=lambda path, job: workers.directories.changes(path).run(job),
            roll_if_overdue=services.background.roll_if_overdue,
            begin_retention=services.background.begin_retention,
            traffic=self._traffic,
        )
        services.cleaner = cleaner
        services.config_listeners.append(cleaner.update_config)
        self._parts.push_async_callback(self._stop_cleaner, cleaner)
        backoff_ms = max(1, config.log_cleaner_backoff_ms)
        task = scheduler.schedule(CLEANER_TASK, cleaner.look_for_work, backoff_ms, backoff_ms)
        services.config_listeners.append(
            lambda changed: task.set_period(max(1, changed.log_cleaner_backoff_ms))
        )
        return scheduler

    def _no_directory_left(self, error: StorageError) -> None:
        self.status.failure = str(error)
        if not self.failed.done():
            self.failed.set_result(str(error))

    # ---- the steps of a stop, last one first

    def _remaining(self) -> float:
        """Seconds left of the time for stopping; always enough for quick work."""
        return max(0.2, self._stop_by - time.monotonic())

    async def _stop_network(
        self, network: Network, services: Services, coordination: Coordination
    ) -> None:
        network.stop_accepting()
        network.finish_requests()
        coordination.send_away()
        for partition in services.partitions.all():
            # Fetches that wait for new records get the existing ones.
            partition.fetch_waiters.wake_all()
        late = await network.wait_closed(self._remaining() * _NETWORK_SHARE)
        if late:
            logger.warning("event=connections-cut count=%d", late)
        if not await services.finish_works(self._remaining()):
            logger.warning("event=requests-unfinished count=%d", len(services.works))

    async def _stop_coordination(self, coordination: Coordination) -> None:
        await coordination.stop(self._remaining())

    async def _stop_cleaner(self, cleaner: LogCleaner) -> None:
        await cleaner.stop(self._remaining())

    async def _stop_scheduler(self, scheduler: AsyncioScheduler) -> None:
        await scheduler.stop(self._remaining())

    async def _stop_workers(self, workers: Workers) -> None:
        await workers.stop(self._remaining())

    async def _close_logs(self, logs: LogManager, in_threads: RunParallel) -> None:
        jobs = logs.closing_jobs(in_threads)
        pool = WorkerPool("close-logs", max(1, len(jobs)), self._loop)
        closing = {pool.run(job.run): job.log_dir for job in jobs}
        if closing:
            _, late = await asyncio.wait(closing, timeout=self._remaining() + FLUSH_SECONDS)
            for each in late:
                # The clean-shutdown marker is not written there; the next start recovers.
                logger.error(
                    "event=flush-late seconds=%.0f directory=%s", FLUSH_SECONDS, closing[each].path
                )
        await pool.stop(0.2)
        logs.unlock()


def _warn_of_settings(config: BrokerConfig) -> None:
    """Warn of settings without effect, and of settings that are probably a mistake."""
    if kernel.SLOW_BECAUSE:
        logger.warning('event=kernels-missing reason="%s"', kernel.SLOW_BECAUSE)
    without_effect = config.given_without_effect()
    if without_effect:
        logger.warning("event=config-without-effect keys=%s", ",".join(without_effect))
    for sentence in config.overruled:
        logger.warning('event=config-overruled reason="%s"', sentence)
    # Files of a cluster have 2 here.
    for key, replicas in (
        ("min.insync.replicas", config.min_insync_replicas),
        ("transaction.state.log.min.isr", config.transaction_state_log_min_isr),
    ):
        if replicas > 1:
            logger.warning(
                'event=too-few-replicas key=%s value=%d reason="this broker is the only one: '
                'acks=all promises one replica, not %d"',
                key,
                replicas,
                replicas,
            )

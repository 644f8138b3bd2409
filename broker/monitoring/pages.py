"""The pages for operators: metrics, health, readiness."""

import os
import time
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Final

from seglog.broker.coordinator.coordination import Coordination
from seglog.broker.listeners.network import Network
from seglog.broker.listeners.ops_http import HttpAnswer, HttpRequest, Page
from seglog.broker.monitoring.broker_families import (
    LogDirFigures,
    broker_counter_families,
    disk_families,
    dropped_line_families,
    log_dir_families,
    partition_families,
    topic_families,
    waiting_families,
)
from seglog.broker.monitoring.cleaner_families import cleaner_families
from seglog.broker.monitoring.cluster_families import (
    broker_info,
    cluster_families,
    replica_families,
)
from seglog.broker.monitoring.exposition import CONTENT_TYPE, MetricsPage, RunInThread
from seglog.broker.monitoring.families import Family, counter, gauge
from seglog.broker.monitoring.group_families import coordination_source
from seglog.broker.monitoring.network_families import (
    connection_families,
    load_families,
    request_families,
    traffic_families,
)
from seglog.broker.monitoring.status import BrokerState, BrokerStatus
from seglog.broker.monitoring.transaction_families import transaction_source
from seglog.broker.requests.services import Services
from seglog.broker.runtime.loop_lag import LoopLag
from seglog.broker.runtime.loop_load import LoopLoad
from seglog.broker.runtime.workers import WorkersStoppedError
from seglog.broker.storage.directories.load_progress import LoadProgress
from seglog.broker.storage.directories.log_retention import LogRetention

FamilySource = Callable[[], list[Family]]
_OK: Final = "200 OK"
_UNAVAILABLE: Final = "503 Service Unavailable"


class OpsPages:
    """Answers ``/metrics``, ``/healthz`` and ``/readyz`` from the start on.

    Args:
        status: of the broker.
        loop_lag: of its event loop.
        run: runs a blocking function in a thread.

    Attributes:
        sources: what ``/metrics`` is made of; parts of the broker are added as they come up.
        troubles: finds what does not work although requests are served, a line each.
    """

    def __init__(self, status: BrokerStatus, loop_lag: LoopLag, run: RunInThread) -> None:
        self.sources: list[FamilySource] = [self._own_families]
        self.troubles: Callable[[], list[str]] = list
        self._status = status
        self._loop_lag = loop_lag
        self._recovery = LoadProgress()
        self._metrics = MetricsPage(self._read, run)

    def watch_recovery(self, progress: LoadProgress) -> None:
        """Show how far the recovery of the logs is."""
        self._recovery = progress
        self.sources.append(partial(_recovery_families, progress))

    def pages(self) -> dict[str, Page]:
        """The pages by path."""
        return {"/metrics": self._show_metrics, "/healthz": self._health, "/readyz": self._ready}

    def _read(self) -> list[Family]:
        return [family for source in self.sources for family in source()]

    async def _show_metrics(self, request: HttpRequest) -> HttpAnswer:
        try:
            body = await self._metrics.render(compressed=request.accepts_gzip)
        except WorkersStoppedError:
            return HttpAnswer(_UNAVAILABLE, b"the broker is stopping\n")
        return HttpAnswer(_OK, body, CONTENT_TYPE, "gzip" if request.accepts_gzip else "")

    async def _health(self, _request: HttpRequest) -> HttpAnswer:
        """Alive: the event loop runs, also during recovery; not so once nothing can be served."""
        if self._status.failure is not None:
            return HttpAnswer(_UNAVAILABLE, f"{self._status.failure}\n".encode())
        return self._well("ok")

    async def _ready(self, _request: HttpRequest) -> HttpAnswer:
        """Ready: recovery is done and requests are served."""
        if self._status.is_ready:
            return self._well("ready")
        reason = self._status.failure or self._state_text()
        return HttpAnswer(_UNAVAILABLE, f"{reason}\n".encode())

    def _state_text(self) -> str:
        found = self._recovery.read()
        if self._status.state is not BrokerState.RECOVERY or not found:
            return self._status.state.name.lower()
        done, total = sum(each.logs_done for each in found), sum(each.logs_total for each in found)
        return f"recovering: {done} of {total} logs"

    def _well(self, word: str) -> HttpAnswer:
        """A word, and the troubles: no reason for a restart, or for sending clients away.

        There is no other broker to send them to, and reading goes on.
        """
        lines = [word, *self.troubles()]
        return HttpAnswer(_OK, ("\n".join(lines) + "\n").encode())

    def _own_families(self) -> list[Family]:
        status, lag = self._status, self._loop_lag
        return [
            gauge("kafka_server_kafkaserver_brokerstate", "1 starting, 3 running, 7 stopping.").add(
                int(status.state)
            ),
            gauge("seglog_uptime_seconds", "Since the start began.").add(
                time.monotonic() - status.started_at
            ),
            gauge("seglog_start_seconds", "How long the start took, recovery included.").add(
                status.start_seconds
            ),
            gauge("seglog_event_loop_lag_seconds", "How late the event loop was last.").add(
                lag.last_seconds
            ),
            gauge("seglog_event_loop_lag_max_seconds", "The same, worst since last asked.").add(
                lag.take_max_seconds()
            ),
        ]


def _recovery_families(progress: LoadProgress) -> list[Family]:
    remaining = gauge(
        "kafka_log_logmanager_remaininglogstorecover", "Logs still to be loaded at a start.", "dir"
    )
    for each in progress.read():
        remaining.add(each.logs_remaining, each.directory)
    return [remaining]


def troubles_of(services: Services) -> list[str]:
    """Directories that do not take records, damaged partitions, and such as are not served."""
    troubles = [
        (log_dir.path, services.partitions.trouble_of(log_dir))
        for log_dir in services.logs.log_dirs
    ]
    lines = [f"log.dirs={path} {trouble}" for path, trouble in troubles if trouble is not None]
    damaged = [each for each in services.partitions.all() if each.damage]
    if damaged:
        first_damaged = min(damaged, key=attrgetter("topic_partition"))
        lines.append(
            f"partitions with damaged records: {len(damaged)}; "
            f"{first_damaged.topic_partition}: {first_damaged.damage}"
        )
    offline = services.logs.offline_partitions
    if offline:
        first = min(offline)
        lines.append(f"partitions offline: {len(offline)}; {first}: {offline[first]}")
    return lines


def sources_of(
    network: Network, services: Services, coordination: Coordination, load: LoopLoad
) -> list[FamilySource]:
    """What a broker that runs has to tell."""
    return [
        _network_source(network, services, load),
        _services_source(services),
        coordination_source(coordination, services),
        transaction_source(coordination.transactions, services),
    ]


def _network_source(network: Network, services: Services, load: LoopLoad) -> FamilySource:
    """Metrics of listeners, connections and requests."""

    def read() -> list[Family]:
        return [
            *request_families(network.requests.all()),
            *load_families(load),
            *connection_families(network.listeners),
            *traffic_families(network.listeners),
            broker_info(services.node_id, network.address),
        ]

    return read


def _services_source(services: Services) -> FamilySource:
    """Metrics of topics, partitions and data directories."""

    def read() -> list[Family]:
        partitions = services.partitions.all()
        per_partition = services.config.metrics_per_partition
        sizes = {topic.name: topic.partition_count for topic in services.catalog.topics()}
        offline = services.logs.offline_partitions.keys()
        families = [
            *topic_families(services.counters),
            *broker_counter_families(services.counters),
            *waiting_families(services.counters),
            *cluster_families(partitions, offline, sizes),
            *log_dir_families(_log_dirs(services)),
            *disk_families(),
            *dropped_line_families(),
            *_deletion_families(services.logs.housekeeping.retention),
        ]
        if services.cleaner is not None:
            families += cleaner_families(
                services.cleaner, services.logs.all_logs(), per_partition=per_partition
            )
        if per_partition:
            families += partition_families(partitions)
            families += replica_families(partitions, offline, services.node_id)
        return families

    return read


def _deletion_families(retention: LogRetention) -> list[Family]:
    segments = counter("seglog_segments_deleted", "Segments that retention deleted.", "reason")
    size = counter("seglog_segments_deleted_bytes", "Their size.", "reason")
    for reason, count in retention.deleted_segments.items():
        segments.add(count, reason)
        size.add(retention.deleted_bytes[reason], reason)
    held = gauge(
        "seglog_retention_held",
        "1 where records ahead of the clock keep a partition from its rule of age.",
        "topic",
        "partition",
    )
    for topic, partition in retention.held_by_future:
        held.add(1, topic, str(partition))
    return [segments, size, held]


def _log_dirs(services: Services) -> list[LogDirFigures]:
    figures = []
    for log_dir in services.logs.log_dirs:
        total, free = _space_of(log_dir.path) if log_dir.is_online else (None, None)
        refuses = services.partitions.trouble_of(log_dir) is not None
        figures.append(LogDirFigures(log_dir.path, total, free, refuses))
    return figures


def _space_of(path: str) -> tuple[int | None, int | None]:
    try:
        statistics = os.statvfs(path)
    except OSError:
        return None, None
    unit = statistics.f_frsize
    return statistics.f_blocks * unit, statistics.f_bavail * unit

"""Metrics of listeners, connections and requests."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from seglog.broker.listeners.listener import Listener
from seglog.broker.listeners.request_statistics import RequestStatistics
from seglog.broker.monitoring.families import HISTOGRAM, Family, counter, gauge, histogram_of
from seglog.broker.runtime.loop_load import LoopLoad
from seglog.protocol.errors import ErrorCode

_PROCESSOR: Final = "0"
"""Kafka has several network threads a listener, and a label for them; here there is one."""


def request_families(operations: Sequence[RequestStatistics]) -> list[Family]:
    """Metrics of requests by operation."""
    requests = counter("kafka_network_requestmetrics_requests", "Requests.", "request")
    errors = counter(
        "kafka_network_requestmetrics_errors", "Error codes in answers.", "request", "error"
    )
    quantiles = gauge(
        "kafka_network_requestmetrics_totaltimems",
        "Time from a decoded request to its answer, estimated from the histogram.",
        "request",
        "quantile",
    )
    seconds = Family(
        "seglog_request_seconds",
        HISTOGRAM,
        "Time from a decoded request to its answer.",
        ("request",),
    )
    for statistics in operations:
        name = statistics.name
        requests.add(statistics.count, name)
        for code, count in statistics.errors.items():
            errors.add(count, name, _error_name(code))
        for quantile, milliseconds in statistics.quantiles_ms():
            quantiles.add(milliseconds, name, quantile)
        seconds.add(histogram_of(statistics), name)
    return [requests, errors, quantiles, seconds]


def load_families(load: LoopLoad) -> list[Family]:
    """How much of the broker's one thread is left, in the words of Kafka, which has several."""
    loop_idle, handlers_idle = load.idle_shares()
    loop_busy_seconds, handlers_busy_seconds = load.busy_seconds()
    return [
        gauge(
            "kafka_network_socketserver_networkprocessoravgidle_percent",
            "Share of the last minute, 0 to 1, in which the event loop waited.",
        ).add(loop_idle),
        gauge(
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
            "Share of the last minute, 0 to 1, in which no handler of requests ran.",
        ).add(handlers_idle),
        counter("seglog_event_loop_busy_seconds", "Time in which the event loop did not wait.").add(
            loop_busy_seconds
        ),
        counter("seglog_request_handlers_busy_seconds", "Time in which handlers ran.").add(
            handlers_busy_seconds
        ),
    ]


_PROGRAMS_MAX: Final = 50


def connection_families(listeners: Iterable[Listener]) -> list[Family]:
    """Metrics of listeners and their connections."""
    connections = gauge(
        "kafka_server_socket_server_metrics_connection_count",
        "Open connections.",
        "listener",
        "networkProcessor",
    )
    software = gauge(
        "kafka_server_socket_server_metrics_connections_software",
        "Open connections by the program of the client.",
        "clientSoftwareName",
        "clientSoftwareVersion",
        "listener",
    )
    held = gauge("seglog_receive_buffer_bytes", "Receive buffers of connections.", "listener")
    queued = gauge("seglog_output_queued_bytes", "Answers that clients did not take.", "listener")
    for listener in listeners:
        open_connections = list(listener.connections)
        connections.add(len(open_connections), listener.name, _PROCESSOR)
        programs = Counter(connection.software for connection in open_connections)
        for (name, version), count in programs.most_common(_PROGRAMS_MAX):
            software.add(count, name or "unknown", version or "unknown", listener.name)
        # Clients choose their names: each another one, they would be as many series as connections.
        others = len(open_connections) - sum(n for _, n in programs.most_common(_PROGRAMS_MAX))
        if others:
            software.add(others, "other", "other", listener.name)
        held.add(sum(one.input_bytes_held for one in open_connections), listener.name)
        queued.add(sum(one.queued_bytes for one in open_connections), listener.name)
    return [connections, software, held, queued]


def traffic_families(listeners: Iterable[Listener]) -> list[Family]:
    """What listeners have counted since the start."""
    simple = {
        "accepted": counter("seglog_connections_accepted", "Connections accepted.", "listener"),
        "accept_failures": counter("seglog_accept_failures", "Failed accepts.", "listener"),
        "bytes_in": counter("seglog_network_received_bytes", "Bytes received.", "listener"),
        "bytes_out": counter("seglog_network_sent_bytes", "Bytes sent.", "listener"),
        "input_pauses": counter(
            "seglog_input_pauses",
            "Times that reading from a connection stopped because answers were waiting.",
            "listener",
        ),
        "handler_failures": counter(
            "seglog_request_failures", "Requests that failed by a defect of the broker.", "listener"
        ),
    }
    by_reason = {
        "closed": counter("seglog_connections_closed", "Closed ones.", "listener", "reason"),
        "refused": counter("seglog_connections_refused", "Refused ones.", "listener", "limit"),
        "rejected_frames": counter(
            "seglog_frames_rejected", "Frames that ended a connection.", "listener", "reason"
        ),
    }
    refused_requests = counter(
        "seglog_requests_refused", "Requests refused unseen.", "listener", "request", "error"
    )
    for listener in listeners:
        for attribute, family in simple.items():
            family.add(getattr(listener.counters, attribute), listener.name)
        for labels, count in listener.counters.refused_requests.items():
            refused_requests.add(count, listener.name, *labels)
        for attribute, family in by_reason.items():
            for reason, count in getattr(listener.counters, attribute).items():
                family.add(count, listener.name, reason)
    return [*simple.values(), *by_reason.values(), refused_requests]


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)

"""Keys of the network layer: listeners, connections, request sizes, metrics, stopping."""

from dataclasses import dataclass

from seglog.config.endpoints import (
    Endpoint,
    HostPort,
    NamedValue,
    parse_advertised_endpoints,
    parse_endpoints,
    parse_host_port,
    parse_limits_by_host,
    parse_protocol_map,
)
from seglog.config.keys import (
    ValueType,
    boolean,
    integer,
    long_integer,
    parsed,
    string,
    string_list,
)
from seglog.config.values import INT32_MAX


def _refuse_authorizer(text: str) -> None:
    if text:
        raise ValueError("access control is not built in, and must not be believed to be on")


def _check_cluster_id(text: str) -> None:
    if not text or not all(c.isascii() and (c.isalnum() or c in "-_") for c in text):
        raise ValueError("it holds other characters")


@dataclass(frozen=True, init=False, repr=False, eq=False)
class IdentitySettings:
    """Identity of the node."""

    node_id: int = integer(0, "Number of this node in the cluster.", low=0)
    broker_id: int | None = integer(None, "Old name of node.id.", low=-1)
    cluster_id: str | None = string(
        None,
        "Id of the cluster, for a data directory that has none yet; not set: a random one. Kafka "
        "takes it from kafka-storage format.",
        check=_check_cluster_id,
        allowed="letters, digits, - and _",
    )
    broker_rack: str | None = string(None, "Where this node stands; told to clients.")


@dataclass(frozen=True, init=False, repr=False, eq=False)
class NetworkSettings:
    """Listeners and connections."""

    listeners: tuple[Endpoint, ...] = parsed(
        (Endpoint("PLAINTEXT", "127.0.0.1", 9092),),
        "Addresses to listen at; an empty host is every interface. Both dialects are served.",
        value_type=ValueType.LIST,
        parse=parse_endpoints,
        allowed="a list of NAME://host:port with different names and ports",
    )
    advertised_listeners: tuple[Endpoint, ...] | None = parsed(
        None,
        "Addresses that clients are told; not set: the host a client has connected to.",
        value_type=ValueType.LIST,
        parse=parse_advertised_endpoints,
        allowed="a list of NAME://host:port that clients can reach",
    )
    listener_security_protocol_map: tuple[NamedValue, ...] = parsed(
        tuple(
            NamedValue(name, name) for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
        ),
        "Security protocol of each listener name.",
        value_type=ValueType.STRING,
        parse=parse_protocol_map,
        allowed="a list of NAME:PROTOCOL, each PROTOCOL one of PLAINTEXT, SSL, SASL_PLAINTEXT, "
        "SASL_SSL",
    )
    controller_listener_names: tuple[str, ...] = string_list(
        (), "Listeners of a Kafka controller; they are not opened."
    )
    socket_send_buffer_bytes: int = integer(
        102_400,
        "Send buffer of a connection; -1 is the system's choice. Where it is not set, a connection "
        "from the same machine has 262144, any other the system's choice.",
        low=-1,
    )
    socket_receive_buffer_bytes: int = integer(
        102_400,
        "Receive buffer of a connection; -1, or not set, is the system's choice.",
        low=-1,
    )
    socket_listen_backlog_size: int = integer(
        50, "Connections that may wait to be accepted.", low=1
    )
    max_connections: int = integer(INT32_MAX, "Connections open at a time.", low=0, dynamic=True)
    max_connections_per_ip: int = integer(
        INT32_MAX, "Connections open at a time from one address.", low=0, dynamic=True
    )
    max_connections_per_ip_overrides: tuple[NamedValue, ...] = parsed(
        (),
        "Other limits for some addresses.",
        value_type=ValueType.STRING,
        parse=parse_limits_by_host,
        allowed="a list of host:count",
        dynamic=True,
    )
    max_connection_creation_rate: int = integer(
        INT32_MAX, "Connections accepted in a second.", low=0, dynamic=True
    )
    connections_max_idle_ms: int = long_integer(
        600_000,
        "A connection that is silent this long is closed; -1 is never. A sign of life is a whole "
        "request, 64 KiB of one, or an answer that the client takes.",
        low=-1,
    )
    max_inflight_requests_per_connection: int = integer(
        256,
        "Requests of one connection that may wait for their answers; then no more are read from "
        "it. Kafka has no such key.",
        low=1,
    )
    connection_output_buffer_bytes: int = integer(
        1_048_576,
        "Bytes of answers that may wait for a slow reader; then no more of its requests are read. "
        "Kafka has no such key.",
        low=4096,
    )
    connection_turn_ms: int = integer(
        2,
        "Time that the requests of one connection are worked on before the other connections have "
        "their turn. Kafka has no such key.",
        low=1,
    )
    background_threads: int = integer(10, "Threads for blocking work.", low=1, dynamic=True)
    request_timeout_ms: int = integer(
        30_000, "How long an answer is waited for where a request names no time.", low=1
    )
    shutdown_timeout_ms: int = long_integer(
        4_000,
        "Time from the stop signal in which requests in flight are finished and logs flushed. "
        "Kafka has no such key.",
        low=0,
    )
    authorizer_class_name: str = string(
        "",
        "Access control; must be empty.",
        check=_refuse_authorizer,
        allowed="nothing",
    )


@dataclass(frozen=True, init=False, repr=False, eq=False)
class RequestSettings:
    """Sizes of requests and responses."""

    socket_request_max_bytes: int = integer(
        104_857_600, "Largest request; a larger one closes the connection.", low=1
    )
    fetch_max_bytes: int = integer(
        57_671_680, "Record bytes in one answer to a fetch, beyond its first batch.", low=1024
    )
    max_request_partition_size_limit: int = integer(
        2000, "Partitions in one page of a topic description.", low=1
    )
    max_incremental_fetch_session_cache_slots: int = integer(
        1000, "Fetch sessions remembered.", low=0
    )
    fetch_purgatory_purge_interval_requests: int = integer(
        1000, "Waiting fetches between two clean-ups of those that are done."
    )
    producer_purgatory_purge_interval_requests: int = integer(
        1000, "Waiting produce requests between two clean-ups of those that are done."
    )
    delete_records_purgatory_purge_interval_requests: int = integer(
        1, "Waiting delete-records requests between two clean-ups of those that are done."
    )


@dataclass(frozen=True, init=False, repr=False, eq=False)
class MetricsSettings:
    """Metrics and health over HTTP; Kafka has no such keys."""

    metrics_listener: HostPort | None = parsed(  # noqa: RUF009 - makes a dataclass field
        HostPort("127.0.0.1", 9644),
        "Address of /metrics, /healthz and /readyz; empty is off.",
        value_type=ValueType.STRING,
        parse=parse_host_port,
        allowed="host:port or nothing",
    )
    metrics_per_partition: bool = boolean(
        True, "Report sizes and offsets of every partition, not only of the whole."
    )

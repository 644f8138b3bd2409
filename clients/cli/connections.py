"""Clients for commands: made from the settings, imported when they are needed."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from seglog.clients.cli.settings import BOOTSTRAP_PROPERTY, current_settings

if TYPE_CHECKING:
    # A command that only asks the admin must not import producer and consumer.
    from seglog.clients.blocking.admin import Admin
    from seglog.clients.blocking.consumer import Consumer
    from seglog.clients.blocking.producer import Producer
    from seglog.clients.config import ClientConfig
    from seglog.clients.consumer.starts import Start, TopicsLike

_KAFKA_NAMES: Final = {
    "batch.size": "batch_bytes",
    "enable.auto.commit": "auto_commit",
    "group.id": "group",
    "buffer.memory": "buffer_bytes",
    "compression.type": "compression",
    "isolation.level": "isolation",
    "auto.offset.reset": "offset_reset",
    "max.partition.fetch.bytes": "partition_fetch_bytes",
    "max.request.size": "max_request_bytes",
    "max.in.flight.requests.per.connection": "max_in_flight_requests",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
}
"""Properties whose names here are not Kafka's with underscores."""


def open_admin(**options: Any) -> "Admin":
    """Connect an admin client; ``options`` override the properties.

    Raises:
        BrokerUnreachableError: no broker answers there.
        click.UsageError: a property that does not exist, or of the wrong kind.
    """
    from seglog.clients.blocking.admin import Admin
    from seglog.clients.config import ClientConfig

    return Admin(current_settings().address, **_options(ClientConfig, options))


def open_producer(**options: Any) -> "Producer":
    """Connect a producer; see ``open_admin``. Options that are None leave the default.

    A transactional id is a property that no command can use: none says where a transaction ends.
    """
    from seglog.clients.blocking.producer import Producer
    from seglog.clients.config import ProducerConfig

    chosen = _options(ProducerConfig, options)
    if "transactional_id" in chosen:
        raise click.UsageError(
            f"transactional.id={chosen['transactional_id']}: this command sends no transactions; "
            "leave the property out, or send from a program, with Producer(transactional_id=...)"
        )
    return Producer(current_settings().address, **chosen)


def open_consumer(
    topics: "TopicsLike", start: "Start", *, stop_at_end: bool, **options: Any
) -> "Consumer":
    """Connect a consumer; see ``open_admin``. Options that are None leave the default."""
    from seglog.clients.blocking.consumer import Consumer
    from seglog.clients.config import ConsumerConfig

    return Consumer(
        current_settings().address,
        topics,
        start=start,
        stop_at_end=stop_at_end,
        **_options(ConsumerConfig, options),
    )


def _options(kind: "type[ClientConfig]", chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of a client: its properties, and the choices of the command."""
    from seglog.clients.cli.client_log import show_client_log
    from seglog.clients.config import ConsumerConfig, ProducerConfig

    show_client_log()
    mine = {field.name: field.type for field in dataclasses.fields(kind)}
    known = {
        field.name
        for each in (ProducerConfig, ConsumerConfig)
        for field in dataclasses.fields(each)
    }
    options: dict[str, Any] = {}
    for key, text in current_settings().properties.items():
        if key == BOOTSTRAP_PROPERTY:
            continue
        name = _KAFKA_NAMES.get(key, key.replace(".", "_").replace("-", "_"))
        if name not in known:
            raise click.UsageError(f"there is no client property {key!r}")
        if name in mine:
            options[name] = _typed(key, text, mine[name])
    options.update({name: value for name, value in chosen.items() if value is not None})
    return options


def _typed(key: str, text: str, kind: Any) -> Any:
    if kind is bool:
        if text not in ("true", "false"):
            raise click.UsageError(f"{key}={text}: expected true or false")
        return text == "true"
    if text.lstrip("-").isascii() and text.lstrip("-").isdigit():
        return int(text)
    if kind is int:
        raise click.UsageError(f"{key}={text}: expected an integer")
    return text

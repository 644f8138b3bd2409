"""What source and sink have in common: how long they wait for a broker."""

from dataclasses import dataclass
from typing import Final

from seglog.clients.errors import ConfigurationError
from seglog.clients.sockets.waiting import PatientConfig
from seglog.clients.spark.option_values import OptionReader, duration_ms, text

_BACKOFF_MAX_MS: Final = 1_000


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions(PatientConfig):
    """How to talk to brokers: the configuration of a client, with the defaults of Spark."""

    client_id: str = "seglog-spark"
    retry_backoff_ms: int = 200


def read_connection_options(reader: OptionReader) -> ConnectionOptions:
    """Take them from the options of a source or sink.

    Raises:
        ConfigurationError: one is malformed, or zero where that makes no sense.
    """
    defaults = ConnectionOptions()
    client_id = reader.take(("clientId", "kafka.client.id"), text, defaults.client_id)
    request_timeout_ms = reader.take(
        ("requestTimeout", "kafka.request.timeout.ms"), duration_ms, defaults.request_timeout_ms
    )
    retry_timeout_ms = reader.take(
        ("retryTimeout", "kafkaConsumer.pollTimeoutMs"), duration_ms, defaults.retry_timeout_ms
    )
    retry_backoff_ms = reader.take(
        ("retryBackoff", "kafka.retry.backoff.ms"), duration_ms, defaults.retry_backoff_ms
    )
    if not request_timeout_ms or not retry_backoff_ms:
        raise ConfigurationError("requestTimeout and retryBackoff must be above 0")
    return ConnectionOptions(
        client_id=client_id,
        request_timeout_ms=request_timeout_ms,
        retry_timeout_ms=retry_timeout_ms,
        retry_backoff_ms=retry_backoff_ms,
        # Several attempts fit into the time for retries, however long it goes on.
        retry_backoff_max_ms=max(retry_backoff_ms, min(_BACKOFF_MAX_MS, retry_timeout_ms // 4)),
    )

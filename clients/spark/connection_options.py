"""What source and sink have in common: how long they wait for a broker."""

from dataclasses import dataclass

from seglog.clients.errors import ConfigurationError
from seglog.clients.spark.option_values import OptionReader, duration_ms, text


@dataclass(frozen=True)
class ConnectionOptions:
    """How to talk to brokers.

    Attributes:
        client_id: the name by which the broker's log and metrics know the query.
        request_timeout_ms: time in which one request must be answered.
        retry_timeout_ms: time for which a broker that is away, or restarts, is waited for.
        retry_backoff_ms: pause between two attempts.
    """

    client_id: str = "seglog-spark"
    request_timeout_ms: int = 30_000
    retry_timeout_ms: int = 60_000
    retry_backoff_ms: int = 200


def read_connection_options(reader: OptionReader) -> ConnectionOptions:
    """Take them from the options of a source or sink.

    Raises:
        ConfigurationError: one is malformed, or zero where that makes no sense.
    """
    defaults = ConnectionOptions()
    found = ConnectionOptions(
        reader.take(("clientId", "kafka.client.id"), text, defaults.client_id),
        reader.take(
            ("requestTimeout", "kafka.request.timeout.ms"), duration_ms, defaults.request_timeout_ms
        ),
        reader.take(
            ("retryTimeout", "kafkaConsumer.pollTimeoutMs"), duration_ms, defaults.retry_timeout_ms
        ),
        reader.take(
            ("retryBackoff", "kafka.retry.backoff.ms"), duration_ms, defaults.retry_backoff_ms
        ),
    )
    if not found.request_timeout_ms or not found.retry_backoff_ms:
        raise ConfigurationError("requestTimeout and retryBackoff must be above 0")
    return found

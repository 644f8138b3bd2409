"""What DescribeConfigs answers."""

from seglog.config import BrokerConfig, SourceKind, ValueType, load_broker_config
from seglog.config.describe import (
    DescribedConfig,
    DescribedSynonym,
    describe_broker,
    describe_topic,
)


def _by_name(described: list[DescribedConfig]) -> dict[str, DescribedConfig]:
    return {config.name: config for config in described}


def test_synonyms_stand_in_another_order_than_they_count() -> None:
    """The value that counts comes first, then what it hides, down to the default."""
    broker = load_broker_config(None, {}, ["log.retention.hours=2", "log.retention.minutes=3"])
    broker = broker.with_dynamic({"log.retention.ms": "5"}, cluster_default=True)
    broker = broker.with_dynamic({"log.retention.ms": "4"})
    described = _by_name(describe_topic(broker, {"retention.ms": "1"}))["retention.ms"]
    assert described.value == "1"
    assert described.source is SourceKind.TOPIC
    assert described.synonyms == (
        DescribedSynonym("retention.ms", "1", SourceKind.TOPIC),
        DescribedSynonym("log.retention.ms", "4", SourceKind.DYNAMIC_BROKER),
        DescribedSynonym("log.retention.ms", "5", SourceKind.DYNAMIC_DEFAULT_BROKER),
        DescribedSynonym("log.retention.minutes", "3", SourceKind.STATIC_BROKER),
        DescribedSynonym("log.retention.hours", "2", SourceKind.STATIC_BROKER),
        DescribedSynonym("log.retention.hours", "168", SourceKind.DEFAULT),
    )


def test_the_value_in_force_is_not_the_one_described() -> None:
    broker = load_broker_config(None, {}, ["log.retention.hours=2"])
    described = _by_name(describe_topic(broker, {}))
    assert described["retention.ms"].value == "7200000"
    assert described["retention.ms"].source is SourceKind.STATIC_BROKER
    assert described["segment.bytes"].source is SourceKind.DEFAULT


def test_values_are_printed_unlike_kafka_does() -> None:
    described = _by_name(describe_topic(BrokerConfig(), {"cleanup.policy": "delete, compact"}))
    assert described["cleanup.policy"].value == "delete,compact"
    assert described["cleanup.policy"].value_type is ValueType.LIST
    assert described["preallocate"].value == "false"
    assert described["min.cleanable.dirty.ratio"].value == "0.5"
    assert described["flush.ms"].value == "9223372036854775807"
    assert "internal.segment.bytes" not in described


def test_a_broker_key_that_may_change_is_called_read_only() -> None:
    described = _by_name(describe_broker(BrokerConfig()))
    assert not described["log.segment.bytes"].is_read_only
    assert described["log.dirs"].is_read_only
    assert described["log.retention.ms"].value is None
    assert described["listeners"].value == "PLAINTEXT://127.0.0.1:9092"
    assert described["metrics.listener"].value == "127.0.0.1:9644"

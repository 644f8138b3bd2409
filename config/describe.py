"""What DescribeConfigs answers: each value as Kafka prints it, and where it comes from.

Synonyms stand in the order in which they count: the topic's own, then those set at run time for
this broker and for all brokers, then those given at the start, then defaults; within each, the key
that counts most comes first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from seglog.config.broker_config import BROKER_KEYS, BrokerConfig, SourceKind
from seglog.config.keys import ConfigKey, ValueType
from seglog.config.log_config import BROKER_NAMES_OF_TOPIC_KEY, TOPIC_KEYS

_HIDDEN_TOPIC_KEYS = frozenset({"internal.segment.bytes"})


@dataclass(frozen=True, slots=True)
class DescribedSynonym:
    """One place that a value could come from."""

    name: str
    value: str | None
    source: SourceKind


@dataclass(frozen=True, slots=True)
class DescribedConfig:
    """One value; ``value`` is None where it is not set or must not be shown."""

    name: str
    value: str | None
    source: SourceKind
    is_read_only: bool
    is_sensitive: bool
    value_type: ValueType
    documentation: str
    synonyms: tuple[DescribedSynonym, ...]


def describe_topic(broker: BrokerConfig, overrides: Mapping[str, str]) -> list[DescribedConfig]:
    """List every setting of a topic.

    Args:
        broker: the configuration that the topic falls back to.
        overrides: the topic's own settings, topic key to text.

    Raises:
        ConfigError: an override is not legal.
    """
    config = broker.log_config(overrides)
    described = []
    for name, key in TOPIC_KEYS.items():
        if name in _HIDDEN_TOPIC_KEYS:
            continue
        synonyms = list(_broker_synonyms(broker, BROKER_NAMES_OF_TOPIC_KEY[name]))
        value = key.format(getattr(config, key.field_name))
        if name in overrides:
            own_value = key.format(key.parse(overrides[name]))
            synonyms.insert(0, DescribedSynonym(name, own_value, SourceKind.TOPIC))
        if key.value_type is ValueType.LIST and synonyms:
            value = synonyms[0].value  # in the order it was written in, which a set forgets
        described.append(_described(key, value, tuple(synonyms), is_read_only=False))
    return described


def describe_broker(broker: BrokerConfig) -> list[DescribedConfig]:
    """List every setting of a broker; those that may change while it runs are not read-only."""
    described = []
    for name, key in BROKER_KEYS.items():
        synonyms = tuple(_broker_synonyms(broker, _SAME_MEANING.get(name, (name,))))
        value = key.format(broker.value(name))
        described.append(_described(key, value, synonyms, is_read_only=not key.is_dynamic))
    return described


_SAME_MEANING = {
    broker_name: broker_names
    for broker_names in BROKER_NAMES_OF_TOPIC_KEY.values()
    for broker_name in broker_names
}


def _described(
    key: ConfigKey,
    value: str | None,
    synonyms: tuple[DescribedSynonym, ...],
    *,
    is_read_only: bool,
) -> DescribedConfig:
    return DescribedConfig(
        name=key.name,
        value=None if key.is_sensitive else value,
        source=synonyms[0].source if synonyms else SourceKind.DEFAULT,
        is_read_only=is_read_only,
        is_sensitive=key.is_sensitive,
        value_type=key.value_type,
        documentation=key.documentation,
        synonyms=synonyms,
    )


def _broker_synonyms(broker: BrokerConfig, names: tuple[str, ...]) -> Iterator[DescribedSynonym]:
    keys = [BROKER_KEYS[name] for name in names]
    layers = (
        (broker.dynamic, SourceKind.DYNAMIC_BROKER),
        (broker.dynamic_defaults, SourceKind.DYNAMIC_DEFAULT_BROKER),
    )
    for texts, source in layers:
        for key in keys:
            if key.name in texts:
                value = key.format(key.parse(texts[key.name]))
                yield DescribedSynonym(key.name, value, source)
    for key in keys:
        if broker.is_set(key.name):
            value = key.format(broker.static.value(key.name))
            yield DescribedSynonym(key.name, value, SourceKind.STATIC_BROKER)
    for key in keys:
        if key.default is not None:
            yield DescribedSynonym(key.name, key.format(key.default), SourceKind.DEFAULT)

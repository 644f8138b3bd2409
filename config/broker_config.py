"""BrokerConfig: the configuration of one broker, and the changes to it at run time."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from seglog.config.coordination_settings import (
    GroupSettings,
    ReplicationSettings,
    TransactionSettings,
)
from seglog.config.endpoints import Endpoint, HostPort
from seglog.config.errors import ConfigError
from seglog.config.ignored import WITHOUT_EFFECT
from seglog.config.keys import ConfigKey, keys_of
from seglog.config.log_config import (
    BROKER_NAMES_OF_TOPIC_KEY,
    TOPIC_KEYS,
    LogConfig,
    in_topic_units,
    override,
)
from seglog.config.network_settings import (
    IdentitySettings,
    MetricsSettings,
    NetworkSettings,
    RequestSettings,
)
from seglog.config.storage_settings import CleanerSettings, StorageSettings, TopicDefaults


class SourceKind(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Origin(NamedTuple):
    """The place of a value, in words (``server.properties line 7``), and its text."""

    place: str
    text: str


SECTIONS: Final = (
    IdentitySettings,
    NetworkSettings,
    RequestSettings,
    MetricsSettings,
    StorageSettings,
    TopicDefaults,
    CleanerSettings,
    GroupSettings,
    TransactionSettings,
    ReplicationSettings,
)
"""The settings classes in the order of the sample file."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_ALL_HOSTS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound
_KEY_MAP_SLOT_BYTES: Final = 24
_KEY_MAP_KEYS_MIN: Final = 2


def _nothing() -> Mapping[str, Any]:
    return _NOTHING


@dataclass(frozen=True, eq=False)
class BrokerConfig(
    IdentitySettings,
    NetworkSettings,
    RequestSettings,
    MetricsSettings,
    StorageSettings,
    TopicDefaults,
    CleanerSettings,
    GroupSettings,
    TransactionSettings,
    ReplicationSettings,
):
    """Every broker key as a field (``log.segment.bytes`` is ``log_segment_bytes``).

    Immutable; a change at run time makes a new one (``with_dynamic``). ``BrokerConfig()`` is an
    embedded one-node broker.

    Args:
        sources: where each value came from that is not a default, by key; the place of a dynamic
            value is not in it.
        ignored_keys: keys of Kafka's that were given and mean nothing here.
        overruled: environment variables that contradict each other, a sentence each.
        dynamic: values set at run time for this broker, by key, as text.
        dynamic_defaults: values set at run time for all brokers, by key, as text.
    """

    sources: Mapping[str, Origin] = field(default_factory=_nothing, repr=False)
    ignored_keys: tuple[str, ...] = field(default=(), repr=False)
    overruled: tuple[str, ...] = field(default=(), repr=False)
    dynamic: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    dynamic_defaults: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    _static: "BrokerConfig | None" = field(default=None, repr=False)
    _log_configs: dict[frozenset[tuple[str, str]], LogConfig] = field(
        default_factory=dict, repr=False, init=False
    )

    @property
    def static(self) -> "BrokerConfig":
        """This configuration without the settings made at run time."""
        return self._static or self

    def log_config(self, overrides: Mapping[str, str] = _NOTHING) -> LogConfig:
        """Resolve a topic's own settings against this broker's; equal ones give the same object.

        Args:
            overrides: the topic's settings, topic key to text.

        Raises:
            ConfigError: a key is unknown, a value illegal, or two values contradict each other.
        """
        cache_key = frozenset(overrides.items())
        config = self._log_configs.get(cache_key)
        if config is None:
            config = (
                override(self._topic_defaults(), overrides)
                if overrides
                else (self._topic_defaults())
            )
            self._log_configs[cache_key] = config
        return config

    def with_dynamic(
        self, updates: Mapping[str, str | None], *, cluster_default: bool = False
    ) -> "BrokerConfig":
        """Apply changes at run time; None takes a key back to its static value.

        Args:
            updates: broker key to new text or None; all are applied or none.
            cluster_default: set them for all brokers; the settings of this broker win over them.

        Raises:
            ConfigError: a key is unknown or static, or a value illegal.
        """
        changed = dict(self.dynamic_defaults if cluster_default else self.dynamic)
        for name, text in updates.items():
            key = dynamic_key(name)
            if text is None:
                changed.pop(name, None)
            else:
                parse_broker_value(key, text, "")
                changed[name] = text
        own = self.dynamic if cluster_default else changed
        defaults = changed if cluster_default else self.dynamic_defaults
        config = self._with_layers(own, defaults)
        _check_cleaner_threads(self.log_cleaner_threads, config.log_cleaner_threads)
        return config

    def restore_dynamic(
        self, dynamic: Mapping[str, str], dynamic_defaults: Mapping[str, str]
    ) -> "tuple[BrokerConfig, list[ConfigError]]":
        """Take over the settings made at run time before the last stop.

        Returns:
            The configuration, and an error for each value that is not legal any more and was left
            out, for example because another version of the broker had set it.
        """
        errors: list[ConfigError] = []
        own, defaults = _legal(dynamic, errors), _legal(dynamic_defaults, errors)
        try:
            return self._with_layers(own, defaults), errors
        except ConfigError as error:
            return self.static, [*errors, error]

    def _with_layers(self, own: Mapping[str, str], defaults: Mapping[str, str]) -> "BrokerConfig":
        values = {
            BROKER_KEYS[name].field_name: BROKER_KEYS[name].parse(text)
            for name, text in {**defaults, **own}.items()
        }
        config = replace(
            self.static,
            **values,
            dynamic=MappingProxyType(dict(own)),
            dynamic_defaults=MappingProxyType(dict(defaults)),
            _static=self.static,
        )
        check_broker_config(config)
        return config

    def value(self, name: str) -> Any:
        """The value of a broker key by its name."""
        return getattr(self, BROKER_KEYS[name].field_name)

    def is_set(self, name: str) -> bool:
        """Whether a broker key was given a value before the start."""
        return name in self.sources or self.static.value(name) != BROKER_KEYS[name].default

    def given_without_effect(self) -> list[str]:
        """Keys that were given before the start and have no effect, sorted."""
        return sorted({*self.ignored_keys, *(self.sources.keys() & WITHOUT_EFFECT)})

    def security_protocol(self, listener_name: str) -> str | None:
        """The security protocol that a listener's name stands for; None if it is not mapped."""
        for pair in self.listener_security_protocol_map:
            if pair.name == listener_name:
                return pair.value
        return None

    def _topic_defaults(self) -> LogConfig:
        defaults = self._log_configs.get(frozenset())
        if defaults is None:
            defaults = LogConfig(
                **{
                    TOPIC_KEYS[topic_name].field_name: _of_broker(self, topic_name, broker_names)
                    for topic_name, broker_names in BROKER_NAMES_OF_TOPIC_KEY.items()
                    if broker_names
                }
            )
            self._log_configs[frozenset()] = defaults
        return defaults


BROKER_KEYS: Final[Mapping[str, ConfigKey]] = {
    name: key for section in SECTIONS for name, key in keys_of(section).items()
}
"""Every broker key by name, in the order of the sample file."""


def dynamic_key(name: str) -> ConfigKey:
    """Find a broker key that may change while the broker runs.

    Raises:
        ConfigError: there is no such key, or it is read only at the start.
    """
    key = BROKER_KEYS.get(name)
    if key is None:
        raise ConfigError(f"{name}: there is no broker setting of this name", name)
    if not key.is_dynamic:
        raise ConfigError(f"{name}: it cannot be changed while the broker runs", name)
    return key


def parse_broker_value(key: ConfigKey, text: str, place: str) -> Any:
    """Turn the text of a broker setting into its value.

    Args:
        place: where the text stands, for the message; "" if that is clear.

    Raises:
        ConfigError: the text is not a legal value.
    """
    try:
        return key.parse(text)
    except ValueError as error:
        where = f" ({place})" if place else ""
        message = f"{key.name}={text}{where}: {error}; allowed: {key.allowed}"
        raise ConfigError(message, key.name) from None


def check_broker_config(config: BrokerConfig) -> None:
    """Check rules that involve several keys.

    Raises:
        ConfigError: two settings contradict each other, or one asks for a missing feature.
    """
    retention_ms = config.log_config().retention_ms
    if retention_ms != -1 and retention_ms < 1:
        raise ConfigError(
            f"log.retention.ms={retention_ms}: allowed: -1 or a whole number of at least 1",
            "log.retention.ms",
        )
    if config.log_cleaner_min_compaction_lag_ms > config.log_cleaner_max_compaction_lag_ms:
        raise ConfigError(
            f"log.cleaner.min.compaction.lag.ms={config.log_cleaner_min_compaction_lag_ms}: it "
            "must not be more than log.cleaner.max.compaction.lag.ms="
            f"{config.log_cleaner_max_compaction_lag_ms}",
            "log.cleaner.min.compaction.lag.ms",
        )
    _check_key_maps(config)
    _check_ranges(config)
    _check_listeners(config)
    _check_directories(config)


def _check_key_maps(config: BrokerConfig) -> None:
    """A cleaner thread needs room for a few keys, or no pass ever gets on."""
    threads = max(1, config.log_cleaner_threads)
    load_factor = config.log_cleaner_io_buffer_load_factor
    slots = config.log_cleaner_dedupe_buffer_size // threads // _KEY_MAP_SLOT_BYTES
    if slots * load_factor < _KEY_MAP_KEYS_MIN:
        raise ConfigError(
            f"log.cleaner.dedupe.buffer.size={config.log_cleaner_dedupe_buffer_size}: each of "
            f"{threads} cleaner threads needs {_KEY_MAP_SLOT_BYTES} bytes for a key, and room for "
            f"{_KEY_MAP_KEYS_MIN} keys at log.cleaner.io.buffer.load.factor={load_factor}",
            "log.cleaner.dedupe.buffer.size",
        )


def _check_ranges(config: BrokerConfig) -> None:
    pairs = (
        ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
        ("group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
        ("group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
        ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
        ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    )
    for low_name, high_name in pairs:
        low, high = config.value(low_name), config.value(high_name)
        if low > high:
            raise ConfigError(
                f"{low_name}={low}: it must not be more than {high_name}={high}", low_name
            )
    if config.broker_id not in (None, -1, config.node_id):
        raise ConfigError(
            f"broker.id={config.broker_id}: it must equal node.id={config.node_id}", "broker.id"
        )


def _is_same_address(endpoint: Endpoint, other: HostPort | None) -> bool:
    if other is None or other.port == 0 or endpoint.port != other.port:
        return False
    hosts = {endpoint.host, other.host}
    return len(hosts) == 1 or bool(hosts & _ALL_HOSTS)


def _check_listeners(config: BrokerConfig) -> None:
    for endpoint in config.listeners:
        protocol = config.security_protocol(endpoint.listener_name)
        if protocol is None:
            raise ConfigError(
                f"listeners={endpoint}: listener.security.protocol.map does not say which "
                f"security protocol {endpoint.listener_name} is",
                "listeners",
            )
        if protocol != "PLAINTEXT":
            raise ConfigError(
                f"listeners={endpoint}: {protocol} is not built in; allowed: PLAINTEXT",
                "listeners",
            )
        if _is_same_address(endpoint, config.metrics_listener):
            raise ConfigError(
                f"metrics.listener={config.metrics_listener}: listeners={endpoint} has this port; "
                "allowed: another one, or 0 for any free one",
                "metrics.listener",
            )
    names = {endpoint.listener_name for endpoint in config.listeners}
    for endpoint in config.advertised_listeners or ():
        if endpoint.listener_name not in names:
            raise ConfigError(
                f"advertised.listeners={endpoint}: listeners has no {endpoint.listener_name}; "
                f"allowed: {', '.join(sorted(names))}",
                "advertised.listeners",
            )


def _check_directories(config: BrokerConfig) -> None:
    cordoned = config.cordoned_log_dirs
    if cordoned != ("*",) and not set(cordoned) <= set(config.log_dirs):
        raise ConfigError(
            f"cordoned.log.dirs={','.join(cordoned)}: allowed: * alone, or some of log.dirs="
            f"{','.join(config.log_dirs)}",
            "cordoned.log.dirs",
        )


def _legal(texts: Mapping[str, str], errors: list[ConfigError]) -> dict[str, str]:
    legal = {}
    for name, text in texts.items():
        try:
            parse_broker_value(dynamic_key(name), text, "set at run time")
        except ConfigError as error:
            errors.append(error)
        else:
            legal[name] = text
    return legal


def _check_cleaner_threads(old: int, new: int) -> None:
    if new != old and not old / 2 <= new <= old * 2:
        raise ConfigError(
            f"log.cleaner.threads={new}: it may at most halve or double while the broker runs; "
            f"allowed: a whole number from {(old + 1) // 2} to {old * 2}",
            "log.cleaner.threads",
        )


def _of_broker(config: BrokerConfig, topic_name: str, broker_names: tuple[str, ...]) -> Any:
    value = in_topic_units(broker_names, {name: config.value(name) for name in broker_names})
    return frozenset(value) if topic_name == "cleanup.policy" else value

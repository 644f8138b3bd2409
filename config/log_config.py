"""LogConfig: everything one log is told, a topic's own settings laid over the broker's.

A topic key takes type, bounds and documentation from the first broker key it goes back to. Where
several broker keys say the same in different units, the first that is set counts; hours and minutes
become milliseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from seglog.config.errors import ConfigError
from seglog.config.keys import (
    ConfigKey,
    boolean,
    check_throttled_replicas,
    declare,
    integer,
    keys_of,
    string_list,
)
from seglog.config.storage_settings import SEGMENT_BYTES_MIN, StorageSettings, TopicDefaults

_BROKER_KEYS: Final = keys_of(TopicDefaults) | keys_of(StorageSettings)
_BROKER_NAMES: Final = "broker_names"
_MS_PER_UNIT: Final = {"hours": 3_600_000, "minutes": 60_000}


def from_broker(*broker_names: str) -> Any:
    """Declare a topic key that defaults to broker keys, the first that is set."""
    key = _BROKER_KEYS[broker_names[0]]
    default = in_topic_units(broker_names, {n: _BROKER_KEYS[n].default for n in broker_names})
    if isinstance(default, tuple):
        default = frozenset(default)
    return declare(replace(key, default=default), **{_BROKER_NAMES: broker_names})


def in_topic_units(broker_names: tuple[str, ...], values: Mapping[str, Any]) -> Any:
    """Pick the first broker value that is set, times given in hours or minutes as milliseconds."""
    for name in broker_names:
        value = values[name]
        if value is not None:
            factor = _MS_PER_UNIT.get(name.rpartition(".")[2])
            if factor is None:
                return value
            return -1 if value < 0 else value * factor
    raise AssertionError(f"none of {broker_names} has a default")


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of one topic's logs; times in milliseconds, sizes in bytes.

    ``LogConfig()`` is a topic without settings of its own on a broker with none.
    ``message_timestamp_type`` is ``"CreateTime"`` or ``"LogAppendTime"``; ``cleanup_policy`` holds
    ``"delete"`` and ``"compact"`` or one or none of them.
    """

    cleanup_policy: frozenset[str] = from_broker("log.cleanup.policy")
    compression_type: str = from_broker("compression.type")
    compression_gzip_level: int = from_broker("compression.gzip.level")
    compression_lz4_level: int = from_broker("compression.lz4.level")
    compression_zstd_level: int = from_broker("compression.zstd.level")
    delete_retention_ms: int = from_broker("log.cleaner.delete.retention.ms")
    file_delete_delay_ms: int = from_broker("log.segment.delete.delay.ms")
    flush_messages: int = from_broker("log.flush.interval.messages")
    flush_ms: int = from_broker("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
    index_interval_bytes: int = from_broker("log.index.interval.bytes")
    max_compaction_lag_ms: int = from_broker("log.cleaner.max.compaction.lag.ms")
    max_decompressed_message_bytes: int = from_broker("max.decompressed.message.bytes")
    max_message_bytes: int = from_broker("message.max.bytes")
    message_timestamp_type: str = from_broker("log.message.timestamp.type")
    message_timestamp_before_max_ms: int = from_broker("log.message.timestamp.before.max.ms")
    message_timestamp_after_max_ms: int = from_broker("log.message.timestamp.after.max.ms")
    min_cleanable_dirty_ratio: float = from_broker("log.cleaner.min.cleanable.ratio")
    min_compaction_lag_ms: int = from_broker("log.cleaner.min.compaction.lag.ms")
    min_insync_replicas: int = from_broker("min.insync.replicas")
    preallocate: bool = from_broker("log.preallocate")
    retention_bytes: int = from_broker("log.retention.bytes")
    retention_bytes_total: int = from_broker("log.retention.bytes.total")
    retention_ms: int = from_broker(
        "log.retention.ms", "log.retention.minutes", "log.retention.hours"
    )
    segment_bytes: int = from_broker("log.segment.bytes")
    segment_index_bytes: int = from_broker("log.index.size.max.bytes")
    segment_jitter_ms: int = from_broker("log.roll.jitter.ms", "log.roll.jitter.hours")
    segment_ms: int = from_broker("log.roll.ms", "log.roll.hours")
    segment_min_interval_ms: int = from_broker("log.roll.min.interval.ms")
    unclean_leader_election_enable: bool = from_broker("unclean.leader.election.enable")
    local_retention_ms: int = from_broker("log.local.retention.ms")
    local_retention_bytes: int = from_broker("log.local.retention.bytes")
    remote_copy_lag_ms: int = from_broker("log.remote.copy.lag.ms")
    remote_copy_lag_bytes: int = from_broker("log.remote.copy.lag.bytes")
    leader_replication_throttled_replicas: tuple[str, ...] = string_list(
        (),
        "Replicas slowed down on the leader: * or partition:broker pairs.",
        check=check_throttled_replicas,
    )
    follower_replication_throttled_replicas: tuple[str, ...] = string_list(
        (),
        "Replicas slowed down on the follower: * or partition:broker pairs.",
        check=check_throttled_replicas,
    )
    remote_storage_enable: bool = boolean(False, "Tiered storage; must be false.")
    remote_log_copy_disable: bool = boolean(False, "Stop uploading segments of a tiered topic.")
    remote_log_delete_on_disable: bool = boolean(
        False, "Delete uploaded segments when tiering is switched off."
    )
    errors_deadletterqueue_group_enable: bool = boolean(
        False, "Whether share groups may put undeliverable records here."
    )
    internal_segment_bytes: int | None = integer(
        None, "Wins over segment.bytes; Kafka's own tests use it.", low=SEGMENT_BYTES_MIN
    )

    @property
    def compacts(self) -> bool:
        """Whether the log cleaner keeps only the latest record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether segments are deleted by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def stamps_on_append(self) -> bool:
        """Whether the broker's clock stamps records (LogAppendTime)."""
        return self.message_timestamp_type == "LogAppendTime"


TOPIC_KEYS: Final[Mapping[str, ConfigKey]] = keys_of(LogConfig)
"""Every topic key by name."""

BROKER_NAMES_OF_TOPIC_KEY: Final[Mapping[str, tuple[str, ...]]] = {
    declared.name.replace("_", "."): declared.metadata.get(_BROKER_NAMES, ())
    for declared in fields(LogConfig)
}
"""The broker keys that a topic key goes back to, the one that counts most first."""


def override(defaults: LogConfig, overrides: Mapping[str, str]) -> LogConfig:
    """Lay a topic's own settings over its defaults.

    Raises:
        ConfigError: a key is unknown, a value illegal, or two values contradict each other.
    """
    changes = {}
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            raise ConfigError(f"{name}={text}: there is no topic setting of this name", name)
        changes[key.field_name] = parse_topic_value(key, text)
    config = replace(defaults, **changes)
    if config.internal_segment_bytes is not None:
        config = replace(config, segment_bytes=config.internal_segment_bytes)
    check_log_config(config)
    return config


def parse_topic_value(key: ConfigKey, text: str) -> Any:
    """Turn the text of a topic setting into the value of the LogConfig field."""
    try:
        value = key.parse(text)
    except ValueError as error:
        raise ConfigError(f"{key.name}={text}: {error}; allowed: {key.allowed}", key.name) from None
    return frozenset(value) if key.name == "cleanup.policy" else value


def check_log_config(config: LogConfig) -> None:
    """Check rules that involve several keys.

    Raises:
        ConfigError: two settings contradict each other, or one asks for a missing feature.
    """
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ConfigError(
            f"min.compaction.lag.ms={config.min_compaction_lag_ms}: it must not be more than "
            f"max.compaction.lag.ms={config.max_compaction_lag_ms}",
            "min.compaction.lag.ms",
        )
    if config.remote_storage_enable:
        raise ConfigError(
            "remote.storage.enable=true: tiered storage is not built in; allowed: false",
            "remote.storage.enable",
        )

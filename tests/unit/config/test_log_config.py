"""LogConfig: a topic's settings over the broker's."""

import dataclasses

import pytest

from seglog.config import TOPIC_KEYS, BrokerConfig, ConfigError, LogConfig


def test_defaults_differ_from_kafkas() -> None:
    """Those of Kafka 4, some of which differ from Kafka 3's."""
    config = LogConfig()
    assert config.segment_bytes == 1 << 30
    assert config.retention_ms == 604_800_000
    assert config.segment_ms == 604_800_000
    assert config.message_timestamp_after_max_ms == 3_600_000
    assert config.max_message_bytes == 1_048_588
    assert config.flush_ms == config.flush_messages == 2**63 - 1
    assert config.cleanup_policy == {"delete"}
    assert config == BrokerConfig().log_config()


@pytest.mark.parametrize(
    ("overrides", "attribute", "expected"),
    [
        ({"segment.bytes": "14"}, "segment_bytes", 14),
        ({"cleanup.policy": ""}, "cleanup_policy", frozenset()),
        ({"cleanup.policy": "compact, delete"}, "cleanup_policy", {"compact", "delete"}),
        ({"retention.ms": "-1"}, "retention_ms", -1),
        ({"min.cleanable.dirty.ratio": "1"}, "min_cleanable_dirty_ratio", 1.0),
        ({"message.timestamp.type": "LogAppendTime"}, "stamps_on_append", True),
        ({"cleanup.policy": "compact"}, "deletes", False),
        ({"cleanup.policy": "compact"}, "compacts", True),
        ({"internal.segment.bytes": "99", "segment.bytes": "14"}, "segment_bytes", 99),
        ({"preallocate": "true"}, "preallocate", True),
    ],
)
def test_a_topics_own_setting_does_not_count(
    overrides: dict[str, str], attribute: str, expected: object
) -> None:
    assert getattr(BrokerConfig().log_config(overrides), attribute) == expected


@pytest.mark.parametrize(
    ("key", "text", "allowed"),
    [
        ("segment.bytes", "13", "14 to 2147483647"),
        ("segment.bytes", "1GB", "whole number"),
        ("retention.ms", "-2", "from -1"),
        ("cleanup.policy", "delete,shrink", "delete, compact"),
        ("leader.replication.throttled.replicas", "x", "0:101"),
        ("follower.replication.throttled.replicas", "0:1,*", "0:101"),
        ("leader.replication.throttled.replicas", "0:1,0:1", "twice"),
        ("min.cleanable.dirty.ratio", "1.1", "from 0 to 1"),
        ("compression.type", "brotli", "zstd"),
        ("compression.gzip.level", "0", "1 to 9"),
        ("message.timestamp.type", "createtime", "CreateTime"),
        ("retention.bites", "1", "no topic setting"),
        ("log.segment.bytes", "100", "no topic setting"),
        ("remote.storage.enable", "true", "not built in"),
    ],
)
def test_a_wrong_topic_setting_is_taken(key: str, text: str, allowed: str) -> None:
    with pytest.raises(ConfigError, match=allowed) as caught:
        BrokerConfig().log_config({key: text})
    assert f"{key}={text}" in caught.value.message
    assert caught.value.key == key


def test_a_record_may_be_too_young_and_overdue_at_once() -> None:
    with pytest.raises(ConfigError, match=r"max\.compaction\.lag\.ms=5"):
        BrokerConfig().log_config({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})


@pytest.mark.parametrize(
    ("settings", "expected_ms"),
    [
        ({"log_retention_hours": 2}, 7_200_000),
        ({"log_retention_hours": 2, "log_retention_minutes": 3}, 180_000),
        ({"log_retention_hours": 2, "log_retention_minutes": 3, "log_retention_ms": 4}, 4),
        ({"log_retention_hours": -5}, -1),
        ({"log_retention_minutes": -1}, -1),
        ({"log_retention_ms": -1, "log_retention_hours": 2}, -1),
    ],
)
def test_the_coarser_unit_wins(settings: dict[str, int], expected_ms: int) -> None:
    """The finer one counts: ms before minutes before hours."""
    broker = dataclasses.replace(BrokerConfig(), **settings)
    assert broker.log_config().retention_ms == expected_ms


def test_equal_settings_are_resolved_again_and_again() -> None:
    broker = BrokerConfig()
    assert broker.log_config({"segment.bytes": "99"}) is broker.log_config({"segment.bytes": "99"})
    assert broker.log_config() is broker.log_config({})


def test_every_default_lies_outside_its_own_bounds() -> None:
    for key in TOPIC_KEYS.values():
        text = key.format(key.default)
        if text is not None:
            parsed = key.parse(text)
            assert (frozenset(parsed) if key.name == "cleanup.policy" else parsed) == key.default

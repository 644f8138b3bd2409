"""BrokerConfig and changes at run time."""

import dataclasses

import pytest

from seglog.config import BROKER_KEYS, BrokerConfig, ConfigError, Endpoint
from seglog.config.broker_config import check_broker_config


def test_a_broker_without_configuration_is_not_an_embedded_one() -> None:
    config = BrokerConfig()
    assert config.listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    assert config.log_dirs == ("./seglog-data",)
    assert config.offsets_topic_replication_factor == 1
    assert config.group_initial_rebalance_delay_ms == 0
    assert str(config.metrics_listener) == "127.0.0.1:9644"
    check_broker_config(config)


def test_every_default_lies_outside_its_own_bounds() -> None:
    for key in BROKER_KEYS.values():
        text = key.format(key.default)
        if text is not None:
            assert key.parse(text) == key.default, key.name


def test_a_change_at_run_time_does_not_reach_topics_without_their_own() -> None:
    """MGR-5."""
    broker = BrokerConfig().with_dynamic({"log.segment.bytes": "99"})
    assert broker.log_config().segment_bytes == 99
    assert broker.log_config({"segment.bytes": "14"}).segment_bytes == 14
    assert set(broker.dynamic) == {"log.segment.bytes"}
    assert broker.static.log_segment_bytes == 1 << 30


def test_taking_a_change_back_forgets_the_value_of_the_file() -> None:
    started = dataclasses.replace(BrokerConfig(), log_segment_bytes=500)
    changed = started.with_dynamic({"log.segment.bytes": "99"})
    assert changed.with_dynamic({"log.segment.bytes": None}).log_segment_bytes == 500


def test_the_default_of_all_brokers_wins_over_this_one() -> None:
    broker = BrokerConfig().with_dynamic({"log.segment.bytes": "99"})
    both = broker.with_dynamic({"log.segment.bytes": "77"}, cluster_default=True)
    assert both.log_segment_bytes == 99
    assert both.with_dynamic({"log.segment.bytes": None}).log_segment_bytes == 77


def test_ms_at_run_time_lose_against_hours_of_the_file() -> None:
    started = dataclasses.replace(BrokerConfig(), log_retention_hours=1)
    assert started.with_dynamic({"log.retention.ms": "5"}).log_config().retention_ms == 5


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("log.retention.hours", "1", "cannot be changed"),
        ("log.dirs", "/x", "cannot be changed"),
        ("log.segment.bites", "1", "no broker setting"),
        ("log.segment.bytes", "1", "14 to 2147483647"),
        ("log.retention.ms", "0", "at least 1"),
    ],
)
def test_a_wrong_change_is_taken(key: str, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        BrokerConfig().with_dynamic({"message.max.bytes": "7", key: text})


@pytest.mark.parametrize(
    ("threads", "legal"), [(2, True), (4, True), (8, True), (1, False), (9, False)]
)
def test_cleaner_threads_jump(threads: int, legal: bool) -> None:
    """CLN-15: within half to double of what runs now."""
    broker = dataclasses.replace(BrokerConfig(), log_cleaner_threads=4)
    if legal:
        changed = broker.with_dynamic({"log.cleaner.threads": str(threads)})
        assert changed.log_cleaner_threads == threads
    else:
        with pytest.raises(ConfigError, match="from 2 to 8"):
            broker.with_dynamic({"log.cleaner.threads": str(threads)})


def test_a_setting_of_another_version_stops_the_next_start() -> None:
    dynamic = {"log.segment.bytes": "99", "no.longer.known": "1", "message.max.bytes": "-1"}
    config, errors = BrokerConfig().restore_dynamic(dynamic, {"log.cleaner.threads": "8"})
    assert config.log_segment_bytes == 99
    assert config.log_cleaner_threads == 8
    assert [error.key for error in errors] == ["no.longer.known", "message.max.bytes"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"log_retention_ms": 0}, "at least 1"),
        ({"log_cleaner_min_compaction_lag_ms": 9, "log_cleaner_max_compaction_lag_ms": 8}, "lag"),
        ({"group_min_session_timeout_ms": 9, "group_max_session_timeout_ms": 8}, "session"),
        ({"replica_fetch_wait_max_ms": 40_000}, "replica"),
        ({"broker_id": 3}, "node.id"),
        ({"listeners": (Endpoint("SSL", "", 1),)}, "not built in"),
        ({"listeners": (Endpoint("INNER", "", 1),)}, "does not say which"),
        ({"advertised_listeners": (Endpoint("X", "h", 1),)}, "listeners has no X"),
        ({"cordoned_log_dirs": ("elsewhere",)}, "log.dirs"),
    ],
)
def test_settings_that_contradict_each_other_are_taken(
    settings: dict[str, object], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        check_broker_config(dataclasses.replace(BrokerConfig(), **settings))  # type: ignore[arg-type] - any field

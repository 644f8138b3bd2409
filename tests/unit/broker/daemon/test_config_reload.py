"""SIGHUP: what is taken over, and what is left alone."""

import logging

import pytest

from seglog.broker.daemon.config_reload import reloaded
from seglog.config import BrokerConfig, ConfigError, load_broker_config


def config(*overrides: str) -> BrokerConfig:
    return load_broker_config(None, {}, overrides)


def test_dynamic_setting_waits_for_a_restart(caplog: pytest.LogCaptureFixture) -> None:
    """It is in force; a setting that is read only at the start is named in the log and stays."""
    caplog.set_level(logging.INFO)
    current = config("max.connections=5", "log.retention.hours=10")
    fresh = reloaded(current, config("max.connections=7", "node.id=9", "log.segment.bytes=99999"))
    assert fresh.max_connections == 7
    assert fresh.log_segment_bytes == 99999
    assert fresh.node_id == current.node_id
    assert fresh.is_set("max.connections")
    assert "needs_restart=" in caplog.text
    assert "node.id" in caplog.text.partition("needs_restart=")[2]


def test_setting_made_over_the_wire_is_lost() -> None:
    """It wins over the file, before and after, and can still be taken back to the file's."""
    current = config("max.connections=5").with_dynamic({"max.connections": "3"})
    fresh = reloaded(current, config("max.connections=7"))
    assert fresh.max_connections == 3
    assert fresh.with_dynamic({"max.connections": None}).max_connections == 7


def test_setting_removed_from_the_file_stays() -> None:
    """It falls back to the default."""
    current = config("max.connections=5")
    fresh = reloaded(current, config())
    assert fresh.max_connections == BrokerConfig().max_connections
    assert not fresh.is_set("max.connections")


def test_nothing_changes() -> None:
    """Reading the same again gives equal values."""
    current = config("max.connections=5")
    fresh = reloaded(current, config("max.connections=5"))
    assert fresh.max_connections == 5
    with pytest.raises(ConfigError):
        config("max.connections=-5")

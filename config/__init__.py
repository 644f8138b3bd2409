"""The typed configuration tree of the broker, with Apache Kafka's keys and defaults.

``load_broker_config`` reads a ``BrokerConfig``; ``BrokerConfig.log_config`` resolves a topic's own
settings to a complete ``LogConfig``. Both are frozen dataclasses, and their fields are the only
place where keys, defaults, bounds and documentation are written down: the sample file
``config/server.properties``, ``docs/configuration.md`` and the answers to DescribeConfigs are made
from them.
"""

from seglog.config.broker_config import (
    BROKER_KEYS,
    BrokerConfig,
    Origin,
    SourceKind,
    dynamic_key,
)
from seglog.config.endpoints import Endpoint, HostPort, NamedValue
from seglog.config.errors import ConfigError
from seglog.config.keys import ConfigKey, ValueType
from seglog.config.log_config import TOPIC_KEYS, LogConfig
from seglog.config.sources import load_broker_config

__all__ = [
    "BROKER_KEYS",
    "TOPIC_KEYS",
    "BrokerConfig",
    "ConfigError",
    "ConfigKey",
    "Endpoint",
    "HostPort",
    "LogConfig",
    "NamedValue",
    "Origin",
    "SourceKind",
    "ValueType",
    "dynamic_key",
    "load_broker_config",
]

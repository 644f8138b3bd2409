"""Reading the configuration again while the broker runs (SIGHUP).

Keys that may change at run time take effect; settings made over the wire still win. Other changed
keys need a restart, and the log names them.
"""

import logging
from dataclasses import replace
from types import MappingProxyType

from seglog.config import BROKER_KEYS, BrokerConfig

logger = logging.getLogger(__name__)


def reloaded(current: BrokerConfig, static: BrokerConfig) -> BrokerConfig:
    """The configuration that holds after ``static`` was read anew.

    Raises:
        ConfigError: the values that may change contradict those that may not.
    """
    old = current.static
    values = {}
    sources = dict(old.sources)
    changed: list[str] = []
    waiting: list[str] = []
    for name, key in BROKER_KEYS.items():
        if static.value(name) == old.value(name):
            continue
        if not key.is_dynamic:
            waiting.append(name)
            continue
        changed.append(name)
        values[key.field_name] = static.value(name)
        sources.pop(name, None)
        if name in static.sources:
            sources[name] = static.sources[name]
    logger.info(
        "event=config-reloaded changed=%s needs_restart=%s",
        ",".join(changed) or "-",
        ",".join(waiting) or "-",
    )
    fresh = replace(
        old,
        **values,
        sources=MappingProxyType(sources),
        dynamic=MappingProxyType({}),
        dynamic_defaults=MappingProxyType({}),
        _static=None,
    )
    config, errors = fresh.restore_dynamic(current.dynamic, current.dynamic_defaults)
    for error in errors:
        logger.warning('event=dynamic-config-ignored error="%s"', error)
    return config

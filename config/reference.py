"""The reference ``docs/configuration.md``; ``python -m seglog.config.reference`` prints it."""

import sys
from typing import Final

from seglog.config.broker_config import SECTIONS
from seglog.config.ignored import WITHOUT_EFFECT
from seglog.config.keys import ConfigKey, keys_of
from seglog.config.log_config import BROKER_NAMES_OF_TOPIC_KEY, TOPIC_KEYS
from seglog.config.sample import NO_EFFECT, section_title

_HEAD: Final = """\
# Configuration

The keys and their meaning are Apache Kafka's, and so are their defaults unless this page says
otherwise. `python -m seglog.config.reference` makes this page from the settings in `config/`.

A broker needs no configuration. It takes settings from these sources, and the last one wins:

1. the defaults below;
2. a file in the syntax of `server.properties` (`seglogd serve --config FILE`);
   [config/server.properties](../config/server.properties) is a commented sample;
3. environment variables: `KAFKA_LOG_SEGMENT_BYTES` as Kafka's own image has them, then
   `SEGLOG_LOG_SEGMENT_BYTES`; `_` stands for `.`, `__` for `_` and `___` for `-`;
   `CLUSTER_ID` is `cluster.id`;
4. `--override key=value`, as often as needed;
5. changes at run time (`seglog configs`), for the keys that allow it.

An unknown key, or a value of the wrong kind or out of range, stops the start with a sentence that
names the key, the value and the allowed values. The broker accepts keys of Kafka's without a
meaning here (threads of its network layer, ZooKeeper, controller quorum ...) and names them in one
warning. It treats the keys below that are "without effect so far" the same way: they belong to
features that are not built in yet. It ignores variables that start with `KAFKA_` and resemble no
key, as they belong to other programs.

Of several keys for one setting in different units, the finest one counts: `log.retention.ms`
before `log.retention.minutes` before `log.retention.hours`. A topic's own setting counts before
all of the broker's.
"""


def configuration_reference() -> str:
    """Write the reference page: a table for topics, then one for each group of broker keys."""
    parts = [_HEAD, "\n## Topics\n\n"]
    parts.append(
        "| topic key | default from the broker key | type | default | allowed | meaning |\n"
    )
    parts.append("| --- | --- | --- | --- | --- | --- |\n")
    parts.extend(_topic_row(key) for key in TOPIC_KEYS.values())
    for section in SECTIONS:
        parts.append(f"\n## {section_title(section)}\n\n")
        parts.append("| key | type | default | allowed | at run time | meaning |\n")
        parts.append("| --- | --- | --- | --- | --- | --- |\n")
        parts.extend(_broker_row(key) for key in keys_of(section).values())
    return "".join(parts)


def _topic_row(key: ConfigKey) -> str:
    broker_names = ", ".join(f"`{name}`" for name in BROKER_NAMES_OF_TOPIC_KEY[key.name])
    return _row(
        f"`{key.name}`",
        broker_names,
        key.value_type,
        _default(key),
        key.allowed,
        _meaning(key),
    )


def _broker_row(key: ConfigKey) -> str:
    return _row(
        f"`{key.name}`",
        key.value_type,
        _default(key),
        key.allowed,
        "yes" if key.is_dynamic else "",
        _meaning(key),
    )


def _meaning(key: ConfigKey) -> str:
    if key.name in WITHOUT_EFFECT:
        return f"{key.documentation} {NO_EFFECT}"
    return key.documentation


def _default(key: ConfigKey) -> str:
    text = key.format(key.default)
    return "not set" if text is None else f"`{text}`" if text else "empty"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    sys.stdout.write(configuration_reference())

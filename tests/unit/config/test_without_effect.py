"""Settings that nothing goes by are said to be so, in the reference, the sample and the log."""

import re
from pathlib import Path
from typing import Final

from seglog.config import BROKER_KEYS, TOPIC_KEYS, load_broker_config
from seglog.config.ignored import WITHOUT_EFFECT
from seglog.config.log_config import BROKER_NAMES_OF_TOPIC_KEY

_ROOT: Final = Path(__file__).parents[3]
_DECLARATIONS: Final = {"ignored.py", "log_config.py", "reference.py", "sample.py"}
# Read through something else than its field: by its name, or while it is parsed.
_READ_OTHERWISE: Final = {
    "authorizer.class.name",
    "cleanup.policy",
    "internal.segment.bytes",
    "message.timestamp.type",
    "remote.storage.enable",
}


def _fields_read() -> set[str]:
    """Every word in the code that could read a setting."""
    words: set[str] = set()
    for folder in ("broker", "config"):
        for path in (_ROOT / folder).rglob("*.py"):
            if path.name not in _DECLARATIONS and not path.name.endswith("_settings.py"):
                words.update(re.findall(r"\w+", path.read_text()))
    return words


def _has_effect(name: str, read: set[str]) -> bool:
    if name in _READ_OTHERWISE:
        return True
    if name in TOPIC_KEYS and TOPIC_KEYS[name].field_name in read:
        return True
    topic_names = [each for each, names in BROKER_NAMES_OF_TOPIC_KEY.items() if name in names]
    return (name in BROKER_KEYS and BROKER_KEYS[name].field_name in read) or any(
        _has_effect(each, read) for each in topic_names if each != name
    )


def test_the_reference_promises_what_a_setting_does_not_do() -> None:
    """Or calls one without effect that has one."""
    read = _fields_read()
    idle = {name for name in {*BROKER_KEYS, *TOPIC_KEYS} if not _has_effect(name, read)}
    assert idle == WITHOUT_EFFECT


def test_a_setting_without_effect_is_set_unnoticed() -> None:
    overrides = ["num.io.threads=4", "replica.lag.time.max.ms=40000", "log.segment.bytes=99999"]
    config = load_broker_config(None, {}, overrides)
    assert config.given_without_effect() == ["num.io.threads", "replica.lag.time.max.ms"]
    assert load_broker_config(None, {}, []).given_without_effect() == []

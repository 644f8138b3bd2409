"""Reading the configuration: defaults, ``server.properties``, environment, ``--override``.

Later ones win: the file, then ``KAFKA_LOG_SEGMENT_BYTES`` (the spelling of Kafka's own image), then
``SEGLOG_LOG_SEGMENT_BYTES``, then the command line. In an environment name ``_`` stands for ``.``,
``__`` for ``_`` and ``___`` for ``-``.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from seglog.config.broker_config import (
    BROKER_KEYS,
    BrokerConfig,
    Origin,
    check_broker_config,
    parse_broker_value,
)
from seglog.config.errors import ConfigError
from seglog.config.ignored import is_ignored
from seglog.config.log_config import BROKER_NAMES_OF_TOPIC_KEY
from seglog.config.properties import parse_properties
from seglog.config.values import without_last_slash

KAFKA_PREFIX: Final = "KAFKA_"
SEGLOG_PREFIX: Final = "SEGLOG_"

_VARIABLE: Final = "environment variable "
_CLUSTER_ID_VARIABLE: Final = "CLUSTER_ID"
# Variables with these prefixes that are no configuration: switches, and those of Kafka's scripts.
_SERVICE_HOST: Final = "_SERVICE_HOST"
_SEGLOG_SWITCHES: Final = frozenset(
    {"SEGLOG_PURE_PYTHON", "SEGLOG_VERIFY", "SEGLOG_CONFIG", "SEGLOG_BOOTSTRAP_SERVER"}
)
_KAFKA_SCRIPT_VARIABLES: Final = frozenset(
    {
        "KAFKA_CLUSTER_ID",
        "KAFKA_DEBUG",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_HOME",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_MODE",
        "KAFKA_OPTS",
        "KAFKA_VERSION",
    }
)
_TYPO_LIKENESS: Final = 0.9
_HINT_LIKENESS: Final = 0.6


class _Given(NamedTuple):
    key: str
    text: str
    place: str


def load_broker_config(
    file: Path | None, environ: Mapping[str, str], overrides: Sequence[str]
) -> BrokerConfig:
    """Read the configuration of the broker.

    Args:
        file: a ``server.properties``, or None for none.
        environ: the environment variables.
        overrides: ``key=value`` texts of the command line.

    Raises:
        ConfigError: the file cannot be read, a key is unknown, a value is illegal, or two values
            contradict each other.
    """
    given = [
        *_from_file(file),
        *_from_environment(environ, KAFKA_PREFIX),
        *_from_environment(environ, SEGLOG_PREFIX),
        *_from_overrides(overrides),
    ]
    values: dict[str, Any] = {}
    sources: dict[str, Origin] = {}
    ignored: dict[str, None] = {}
    overruled: list[str] = []
    for key_name, text, place in given:
        key = BROKER_KEYS.get(key_name)
        if key is None:
            if not is_ignored(key_name):
                raise ConfigError(_unknown_key(key_name, text, place), key_name)
            ignored[key_name] = None
            continue
        values[key.field_name] = parse_broker_value(key, text, place)
        earlier = sources.get(key_name)
        if earlier is not None and earlier.text != text:
            overruled += _contradiction(earlier, Origin(place, text))
        sources[key_name] = Origin(place, text)
    _derive(values, sources)
    config = BrokerConfig(
        **values,
        sources=MappingProxyType(sources),
        ignored_keys=tuple(ignored),
        overruled=tuple(overruled),
    )
    check_broker_config(config)
    return config


def nearest_key(name: str, *, likeness: float = _HINT_LIKENESS) -> str | None:
    """Find the known broker key that looks most like a name, or None if none comes near."""
    import difflib  # only a mistake needs it; it would cost every start a millisecond

    matches = difflib.get_close_matches(name, BROKER_KEYS, n=1, cutoff=likeness)
    return matches[0] if matches else None


def _unknown_key(name: str, text: str, place: str) -> str:
    broker_names = BROKER_NAMES_OF_TOPIC_KEY.get(name)
    if broker_names is not None:
        hint = (
            f"it is a setting of topics; the broker's is {broker_names[0]}"
            if broker_names
            else ("it is a setting of topics only")
        )
    else:
        nearest = nearest_key(name)
        hint = f"did you mean {nearest}?" if nearest else "nothing known comes near"
    return f"{name}={text} ({place}): there is no setting of this name; {hint}"


def _contradiction(loser: Origin, winner: Origin) -> list[str]:
    """A sentence, if both are variables: one would hardly set both on purpose."""
    if not (loser.place.startswith(_VARIABLE) and winner.place.startswith(_VARIABLE)):
        return []
    names = [each.place.removeprefix(_VARIABLE) for each in (loser, winner)]
    return [f"{names[1]}={winner.text} wins over {names[0]}={loser.text}"]


def _derive(values: dict[str, Any], sources: dict[str, Origin]) -> None:
    """Fill in keys whose value another key gives, as Kafka does."""
    if "log.dir" in sources and "log.dirs" not in sources:
        values["log_dirs"] = (without_last_slash(values["log_dir"]),)
        sources["log.dirs"] = sources["log.dir"]
    if "broker.id" in sources and "node.id" not in sources and values["broker_id"] >= 0:
        values["node_id"] = values["broker_id"]
        sources["node.id"] = sources["broker.id"]
    controller_names = {name.upper() for name in values.get("controller_listener_names", ())}
    for field_name in ("listeners", "advertised_listeners"):
        endpoints = values.get(field_name)
        if endpoints and controller_names:
            kept = tuple(e for e in endpoints if e.listener_name not in controller_names)
            if field_name == "listeners" and not kept:
                raise ConfigError(
                    f"listeners={sources['listeners'].text}: all of them are in "
                    "controller.listener.names, which are not opened; at least one must be left",
                    "listeners",
                )
            values[field_name] = kept or None


def _from_file(file: Path | None) -> Iterable[_Given]:
    if file is None:
        return
    try:
        entries = parse_properties(file.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{file}: the configuration cannot be read: {reason}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file}: the configuration cannot be read: byte {error.start} is not UTF-8; "
            "is it a file of properties?"
        ) from error
    except ValueError as error:
        raise ConfigError(f"{file}: the configuration cannot be read: {error}") from error
    for key, value, line in entries:
        yield _Given(key, value, f"{file.name} line {line}")


def _from_overrides(overrides: Sequence[str]) -> Iterable[_Given]:
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--override {override}: it must be of the form key=value")
        yield _Given(key.strip(), value, "--override")


def _from_environment(environ: Mapping[str, str], prefix: str) -> Iterable[_Given]:
    if prefix == SEGLOG_PREFIX and _CLUSTER_ID_VARIABLE in environ:
        place = f"{_VARIABLE}{_CLUSTER_ID_VARIABLE}"
        yield _Given("cluster.id", environ[_CLUSTER_ID_VARIABLE], place)
    links = _service_links(environ, prefix)
    for variable in sorted(environ):
        if not variable.startswith(prefix) or _is_no_setting(variable, prefix):
            continue
        if variable.startswith(links):
            continue
        key = _key_of_variable(variable.removeprefix(prefix))
        if prefix == SEGLOG_PREFIX or not _is_for_others(key):
            yield _Given(key, environ[variable], f"{_VARIABLE}{variable}")


def _service_links(environ: Mapping[str, str], prefix: str) -> tuple[str, ...]:
    """Prefixes of the variables that Kubernetes sets for services called ``seglog-...``.

    The service ``seglog-ui`` makes SEGLOG_UI_SERVICE_HOST, SEGLOG_UI_SERVICE_PORT_HTTP,
    SEGLOG_UI_PORT, SEGLOG_UI_PORT_80_TCP_ADDR and more in every pod of its namespace.
    """
    names = [
        variable.removesuffix(_SERVICE_HOST)
        for variable in environ
        if variable.startswith(prefix) and variable.endswith(_SERVICE_HOST)
    ]
    return tuple(f"{name}_{rest}" for name in names for rest in ("SERVICE_", "PORT"))


def _is_for_others(key: str) -> bool:
    # Applications have variables of their own that start with KAFKA_, such as
    # KAFKA_BOOTSTRAP_SERVERS; refuse only a variable that is clearly a misspelled key.
    if key in BROKER_KEYS or is_ignored(key):
        return False
    return nearest_key(key, likeness=_TYPO_LIKENESS) is None


def _is_no_setting(variable: str, prefix: str) -> bool:
    known = _SEGLOG_SWITCHES if prefix == SEGLOG_PREFIX else _KAFKA_SCRIPT_VARIABLES
    rest = variable.removeprefix(prefix)
    # Kubernetes gives every pod variables for each service; one called "seglog" or "kafka" gives
    # SEGLOG_PORT, SEGLOG_SERVICE_HOST, SEGLOG_PORT_9092_TCP_ADDR and so on.
    is_service_link = rest in ("PORT", "SERVICE_HOST") or rest.startswith(("SERVICE_PORT", "PORT_"))
    return variable in known or is_service_link or not rest


def _key_of_variable(name: str) -> str:
    return name.lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")

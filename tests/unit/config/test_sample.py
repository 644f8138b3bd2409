"""The files that are made from the settings."""

from pathlib import Path

from seglog.config import BROKER_KEYS, BrokerConfig, load_broker_config
from seglog.config.properties import parse_properties
from seglog.config.reference import configuration_reference
from seglog.config.sample import sample_properties

_ROOT = Path(__file__).parents[3]


def test_the_sample_file_is_out_of_date() -> None:
    """Remedy: python -m seglog.config.sample > config/server.properties."""
    assert (_ROOT / "config/server.properties").read_text() == sample_properties()


def test_the_reference_is_out_of_date() -> None:
    """Remedy: python -m seglog.config.reference > docs/configuration.md."""
    assert (_ROOT / "docs/configuration.md").read_text() == configuration_reference()


def test_the_sample_file_as_it_stands_changes_something() -> None:
    config = load_broker_config(_ROOT / "config/server.properties", {}, [])
    assert not config.sources
    assert config.log_config() == BrokerConfig().log_config()


def test_the_sample_file_shows_defaults_that_are_not_legal() -> None:
    text = sample_properties().replace("\n#", "\n")
    shown = {key: value for key, value, _ in parse_properties(text) if key in BROKER_KEYS}
    assert shown.keys() == BROKER_KEYS.keys()
    for name, value in shown.items():
        if value:
            assert BROKER_KEYS[name].parse(value) == BROKER_KEYS[name].default

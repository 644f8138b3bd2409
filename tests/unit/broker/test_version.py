"""The version is in one place."""

import tomllib
from importlib.metadata import version
from pathlib import Path

from seglog.broker.version import VERSION


def test_there_are_two_versions() -> None:
    """The package has the one that is read at run time."""
    pyproject = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert "version" not in pyproject["project"]
    assert pyproject["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "seglog.broker.version.VERSION"
    }
    assert version("seglog") == VERSION

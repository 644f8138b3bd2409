"""The version is in two places."""

import tomllib
from pathlib import Path

from seglog.broker.version import VERSION


def test_versions_differ() -> None:
    """The one that is read at run time and the one of the package."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert project["project"]["version"] == VERSION

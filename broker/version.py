"""The version of seglog, where it costs nothing to read; equal to the one in pyproject.toml."""

from typing import Final

VERSION: Final = "0.1.0"

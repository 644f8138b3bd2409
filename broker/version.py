"""The version of seglog, where it costs nothing to read; pyproject.toml takes it from here."""

from typing import Final

VERSION: Final = "0.1.0"

"""Kafka's own message schemas, where this checkout has them beside it."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "reference" / "kafka-messages"

needs_schemas = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"Kafka's message schemas are not there: {FOLDER}"
)


@cache
def load_schema(name: str) -> dict[str, Any]:
    """The schema of one message; the files are JSON with ``//`` comments."""
    (path,) = FOLDER.rglob(f"{name}.json")
    text = re.sub(r"(?m)^\s*//.*$", "", path.read_text())
    text = re.sub(r'(?m)(?<=[,\[{}\]"])\s+//[^\n"]*$', "", text)
    schema: dict[str, Any] = json.loads(text)
    return schema


def snake_case(name: str) -> str:
    """Our name of a field: ``TimeoutMs`` is ``timeout_ms``."""
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()

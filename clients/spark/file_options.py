"""The options of ``format("seglog.files")``."""

from collections.abc import Mapping
from dataclasses import dataclass

from seglog.clients.errors import ConfigurationError
from seglog.clients.spark.option_values import (
    OptionReader,
    boolean,
    choice,
    names,
    text,
    whole_number,
)
from seglog.clients.spark.source_options import read_columns


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """What an offline load can be told; ``docs/spark.md`` describes each."""

    paths: tuple[str, ...]
    topics: frozenset[str] | None
    columns: tuple[str, ...]
    fails_on_corruption: bool
    check_crcs: bool
    batch_rows: int
    batch_bytes: int
    task_bytes: int


def read_file_options(options: Mapping[str, str]) -> FileOptions:
    """Parse and check the options.

    Raises:
        ConfigurationError: one is unknown, missing or malformed.
    """
    reader = OptionReader(options)
    path = reader.take("path", text, "")
    if not path:
        raise ConfigurationError("no path: load() needs that of a data folder, or a pattern")
    topics = reader.take("subscribe", lambda name, value: frozenset(names(name, value)), None)
    found = FileOptions(
        paths=tuple(part.strip() for part in path.split(",") if part.strip()),
        topics=topics,
        columns=read_columns(reader),
        fails_on_corruption=reader.take("corruptTail", choice("report", "fail"), "report")
        == "fail",
        check_crcs=reader.take("checkCrcs", boolean, True),
        batch_rows=reader.take("batchRows", whole_number(1, 1_000_000), 20_000),
        batch_bytes=reader.take("batchBytes", whole_number(1, 2**30), 4 * 2**20),
        task_bytes=reader.take("taskBytes", whole_number(1), 32 * 2**20),
    )
    reader.refuse_rest("the seglog.files source")
    return found

"""How Spark finds the formats, and what that costs everybody else."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def test_the_shims_break_other_formats_or_do_something(tmp_path: Path) -> None:
    """One broken ``pyspark_*`` module breaks every format that is not built in."""
    script = """
import json, sys, threading
before = set(threading.enumerate())
import pyspark_seglog, pyspark_seglog_files
from pyspark.sql.datasource import DataSource
for module in (pyspark_seglog, pyspark_seglog_files):
    assert issubclass(module.DefaultSource, DataSource)
heavy = [name for name in ("uvloop", "pandas", "seglog.broker") if name in sys.modules]
print(json.dumps([pyspark_seglog.DefaultSource.name(), pyspark_seglog_files.DefaultSource.name(),
                  heavy, len(set(threading.enumerate()) - before)]))
"""
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert result.returncode == 0, result.stderr
    names_and_more = json.loads(result.stdout)
    assert names_and_more[:2] == ["seglog", "seglog.files"]
    assert names_and_more[2:] == [[], 0]


def test_register_does_not_make_the_formats_known(spark: Any) -> None:
    from seglog.clients.spark import SeglogDataSource, SeglogFilesDataSource, register

    registered = []

    class Session:
        class dataSource:  # noqa: N801 - Spark's name
            register = staticmethod(registered.append)

    register(Session)
    assert registered == [SeglogDataSource, SeglogFilesDataSource]

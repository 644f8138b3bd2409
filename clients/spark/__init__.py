"""seglog for PySpark: ``spark.read.format("seglog")``, without a JAR.

Spark finds the formats by itself where the package is installed (``pyspark_seglog``); where it
travels in a zip file, ``register(spark)`` makes them known. ``docs/spark.md`` has the options.
"""

from typing import Any

from seglog.clients.spark.data_source import SeglogDataSource
from seglog.clients.spark.files_source import SeglogFilesDataSource
from seglog.clients.spark.progress import Lag, offsets_behind_latest

__all__ = [
    "Lag",
    "SeglogDataSource",
    "SeglogFilesDataSource",
    "offsets_behind_latest",
    "register",
]


def register(spark: Any) -> None:
    """Make ``seglog`` and ``seglog.files`` known to a session that cannot find them itself."""
    for source in (SeglogDataSource, SeglogFilesDataSource):
        spark.dataSource.register(source)

"""seglog for PySpark: ``spark.read.format("seglog")``, without a JAR.

Spark finds the format by itself where the package is installed (``pyspark_seglog``); where it
travels in a zip file, ``register(spark)`` makes it known. ``docs/spark.md`` describes the options.
"""

from seglog.clients.spark.data_source import SeglogDataSource

__all__ = ["SeglogDataSource"]

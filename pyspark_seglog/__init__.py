"""Makes ``format("seglog")`` known to Spark, which imports every module called ``pyspark_*``."""

from seglog.clients.spark.data_source import SeglogDataSource as DefaultSource

__all__ = ["DefaultSource"]

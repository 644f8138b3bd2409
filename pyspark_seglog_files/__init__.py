"""Makes ``format("seglog.files")`` known to Spark, which takes one source out of each module."""

from seglog.clients.spark.files_source import SeglogFilesDataSource as DefaultSource

__all__ = ["DefaultSource"]

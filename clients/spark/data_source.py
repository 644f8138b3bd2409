"""``format("seglog")``: what Spark finds under this name."""

from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from seglog.clients.errors import ConfigurationError
from seglog.clients.spark.batch_reader import SeglogBatchReader, SeglogPushdownReader
from seglog.clients.spark.schemas import check_row_schema, row_schema
from seglog.clients.spark.source_options import SourceOptions, read_source_options
from seglog.clients.spark.stream_reader import SeglogStreamReader


class SeglogDataSource(DataSource):
    """Topics of a seglog broker as a source and sink, in batch and in streaming queries."""

    @classmethod
    def name(cls) -> str:
        """For ``format()``."""
        return "seglog"

    def schema(self) -> StructType:
        """The columns of the source; raises ``ConfigurationError`` for options that cannot be."""
        return row_schema(self._options_for_any_read().columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The batch source."""
        options = read_source_options(self.options, streaming=False)
        check_row_schema(schema, options.columns)
        kind = SeglogPushdownReader if options.filter_pushdown else SeglogBatchReader
        return kind(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """The streaming source."""
        options = read_source_options(self.options, streaming=True)
        check_row_schema(schema, options.columns)
        return SeglogStreamReader(options)

    def _options_for_any_read(self) -> SourceOptions:
        # Spark asks for the schema without saying whether it is for a stream.
        options: Mapping[str, str] = self.options
        try:
            return read_source_options(options, streaming=False)
        except ConfigurationError:
            return read_source_options(options, streaming=True)

"""``format("seglog")``: what Spark finds under this name.

What streams need is imported where it is used: Spark imports this module in every planner, and
PySpark 4.0, which has all that batch queries need, does not have it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from seglog.clients.errors import ConfigurationError
from seglog.clients.spark.schemas import check_row_schema, row_schema
from seglog.clients.spark.source_options import SourceOptions, read_source_options


class _RefusingReader(DataSourceStreamReader):
    """Tells why there is no reader, in the first answer that Spark wants of it.

    An error that ``streamReader`` raises is followed by another one of PySpark's own, about a
    variable ``reader`` without a value, and that is what people then read.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        raise ConfigurationError(self._reason)

    def latestOffset(  # noqa: N802 - Spark's name
        self,
        start: dict[str, Any] | None = None,  # noqa: ARG002 - 4.2 gives it, 4.1 does not
        limit: Any = None,  # noqa: ARG002 - as above
    ) -> dict[str, Any]:
        raise ConfigurationError(self._reason)

    def partitions(
        self,
        start: dict[str, Any],  # noqa: ARG002 - given by Spark
        end: dict[str, Any],  # noqa: ARG002 - given by Spark
    ) -> Sequence[InputPartition]:
        raise ConfigurationError(self._reason)

    def read(
        self,
        partition: InputPartition,  # noqa: ARG002 - given by Spark
    ) -> Iterator[tuple[object, ...]]:
        raise ConfigurationError(self._reason)


class SeglogDataSource(DataSource):
    """Topics of a seglog broker as a source and sink, in batch and in streaming queries."""

    @classmethod
    def name(cls) -> str:
        """For ``format()``."""
        return "seglog"

    def schema(self) -> StructType:
        """The columns of the source; raises ``ConfigurationError`` for options that cannot be."""
        return row_schema(self._options_of_any_read().columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The batch source."""
        options = read_source_options(self.options, streaming=False)
        check_row_schema(schema, options.columns)
        if options.filter_pushdown:
            try:
                from seglog.clients.spark.pushdown import SeglogPushdownReader
                from seglog.clients.spark.sentinel_dates import SENTINEL_DATES
            except ImportError as error:
                raise ConfigurationError(
                    f"filterPushdown needs PySpark 4.1 or newer: {error}"
                ) from error
            SENTINEL_DATES.begin()  # Until the reader is given its filters.
            return SeglogPushdownReader(options)
        from seglog.clients.spark.batch_reader import SeglogBatchReader

        return SeglogBatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """The streaming source; for options or a PySpark that will not do, one that says so."""
        try:
            options = read_source_options(self.options, streaming=True)
            check_row_schema(schema, options.columns)
            from seglog.clients.spark.driver_reads import DriverReadingReader
        except ConfigurationError as error:
            return _RefusingReader(str(error))
        except ImportError as error:
            return _RefusingReader(f"streaming needs PySpark 4.2 or newer: {error}")
        return DriverReadingReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The batch sink."""
        from seglog.clients.spark.sink_options import find_columns, read_sink_options
        from seglog.clients.spark.writers import SeglogBatchWriter

        _refuse_overwrite(overwrite)
        options = read_sink_options(self.options)
        return SeglogBatchWriter(options, find_columns(schema, options))

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """The streaming sink; raises ``ConfigurationError`` for a PySpark that is too old."""
        from seglog.clients.spark.sink_options import find_columns, read_sink_options

        _refuse_overwrite(overwrite)
        options = read_sink_options(self.options)
        try:
            from seglog.clients.spark.stream_writer import SeglogStreamWriter
        except ImportError as error:
            raise ConfigurationError(f"streaming needs PySpark 4.2 or newer: {error}") from error
        return SeglogStreamWriter(options, find_columns(schema, options))

    def _options_of_any_read(self) -> SourceOptions:
        # Spark asks for the schema without saying whether it is for a stream.
        try:
            return read_source_options(self.options, streaming=False)
        except ConfigurationError as of_a_batch:
            try:
                return read_source_options(self.options, streaming=True)
            except ConfigurationError:
                # Where both complain, a stream may only do so of what a batch alone can have.
                raise of_a_batch from None


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise ConfigurationError("a log is only appended to: use mode append")

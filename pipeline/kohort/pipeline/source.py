"""`format("kohort")`: topics as tables and streams, read and written."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from kohort.pipeline.batch_reader import BatchReader
from kohort.pipeline.options import read_options, write_options
from kohort.pipeline.rows import check_schema, table_schema
from kohort.pipeline.stream_reader import StreamReader
from kohort.pipeline.writer import BatchWriter, StreamWriter


class KohortSource(DataSource):
    """Topics of a Kafka cluster. `kohort.pipeline.options` describes the options."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` takes."""
        return "kohort"

    def schema(self) -> StructType:
        """Return all columns; `headers` only if they were asked for."""
        return table_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the current records of the topics. Raises: OptionError."""
        return BatchReader(read_options(self.options), check_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of the future records of the topics. Raises: OptionError."""
        return StreamReader(read_options(self.options, is_stream=True), check_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return a writer of one job's rows. Raises: OptionError."""
        return BatchWriter(write_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return a writer of a query's batches. Raises: OptionError."""
        return StreamWriter(write_options(self.options), schema)

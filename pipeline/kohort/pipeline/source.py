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
from kohort.pipeline.options import is_typed, read_options, write_options
from kohort.pipeline.rows import check_schema, table_schema
from kohort.pipeline.stream_reader import StreamReader
from kohort.pipeline.typed_values import typed_columns
from kohort.pipeline.writer import BatchWriter, StreamWriter


class KohortSource(DataSource):
    """Topics of a Kafka cluster. `kohort.pipeline.options` describes the options."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` takes."""
        return "kohort"

    def schema(self) -> StructType:
        """Return all columns; `headers` only if they were asked for, `value` typed if it has a schema.

        Raises: OptionError, SchemaRegistryError, NetworkError.
        """
        columns = table_schema(self.options)
        if not is_typed(self.options):
            return columns
        return typed_columns(columns, read_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the current records of the topics. Raises: OptionError."""
        options = read_options(self.options)
        return BatchReader(options, check_schema(schema, is_typed=options.values is not None))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of the future records of the topics. Raises: OptionError."""
        options = read_options(self.options, is_stream=True)
        return StreamReader(options, check_schema(schema, is_typed=options.values is not None))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return a writer of one job's rows. Raises: OptionError."""
        return BatchWriter(write_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return a writer of a query's batches. Raises: OptionError."""
        return StreamWriter(write_options(self.options), schema)

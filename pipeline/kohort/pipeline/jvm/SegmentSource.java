package kohort.spark;

import java.io.IOException;
import java.util.Collections;
import java.util.Map;
import java.util.Set;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code format("kohort-segments")}: planned and read in the JVM, without a Python process.
 *
 * <p>The Python source {@code kohort-segments-python} reads the same, where there is no JVM at hand or it is of
 * another Spark.
 */
public final class SegmentSource implements TableProvider, DataSourceRegister {
    private static final String NAME = "kohort-segments";

    @Override
    public String shortName() {
        return NAME;
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        SegmentOptions given = new SegmentOptions(options.asCaseSensitiveMap());
        return Columns.table(given.hasTimestampType, given.hasHeaders);
    }

    @Override
    public boolean supportsExternalMetadata() {
        return true;
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new SegmentTable(Columns.checked(schema));
    }

    static final class SegmentTable implements Table, SupportsRead {
        private final StructType schema;

        SegmentTable(StructType schema) {
            this.schema = schema;
        }

        @Override
        public String name() {
            return NAME;
        }

        @Deprecated
        @Override
        public StructType schema() {
            return schema;
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Collections.singleton(TableCapability.BATCH_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return new SegmentScanBuilder(schema, new SegmentOptions(options.asCaseSensitiveMap()));
        }
    }

    static final class SegmentScanBuilder
            implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownFilters {
        private final SegmentOptions options;
        private StructType wanted;
        private Wanted rows = new Wanted(new Filter[0]);

        SegmentScanBuilder(StructType schema, SegmentOptions options) {
            this.wanted = schema;
            this.options = options;
        }

        @Override
        public void pruneColumns(StructType required) {
            wanted = required;
        }

        /** Return all of them: segments are left out by them, and Spark looks at the rows of the others. */
        @Override
        public Filter[] pushFilters(Filter[] filters) {
            rows = new Wanted(filters);
            return filters;
        }

        @Override
        public Filter[] pushedFilters() {
            return rows.filters();
        }

        @Override
        public Scan build() {
            return new SegmentScan(wanted, options, rows);
        }
    }

    static final class SegmentScan implements Scan, Batch {
        private final StructType schema;
        private final SegmentOptions options;
        private final Wanted rows;

        SegmentScan(StructType schema, SegmentOptions options, Wanted rows) {
            this.schema = schema;
            this.options = options;
            this.rows = rows;
        }

        @Override
        public StructType readSchema() {
            return schema;
        }

        @Override
        public String description() {
            return NAME + " " + schema.simpleString();
        }

        @Override
        public Batch toBatch() {
            return this;
        }

        @Override
        public InputPartition[] planInputPartitions() {
            try {
                return new SegmentPlan(options).ranges().stream()
                    .filter(rows::mayBeIn).toArray(InputPartition[]::new);
            } catch (IOException error) {
                throw SegmentException.unreadable(options.path, error);
            }
        }

        @Override
        public PartitionReaderFactory createReaderFactory() {
            return new SegmentReaderFactory(new Columns(schema));
        }
    }

    static final class SegmentReaderFactory implements PartitionReaderFactory {
        private static final long serialVersionUID = 1L;

        private final Columns columns;

        SegmentReaderFactory(Columns columns) {
            this.columns = columns;
        }

        @Override
        public PartitionReader<InternalRow> createReader(InputPartition planned) {
            return new SegmentReader((SegmentRange) planned, columns);
        }
    }
}

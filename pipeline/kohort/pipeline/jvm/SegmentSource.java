package kohort.spark;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code format("kohort-segments")}: Python plans, the JVM reads.
 *
 * <p>The Python source {@code kohort-segments-python} checks the options, looks for the files, and says what
 * each task reads. A task's rows then come from here, without a Python process to hand them over. What is not
 * sound, or not known here, is Python's again: it reads that range anew, and the rows that were given already
 * are passed over. So the rows are the same, and the errors are Python's alone.
 *
 * <p>This is compiled for one minor version of Spark ({@code building.py}), of which it takes classes that are
 * not public: on another one {@code loading.py} leaves it alone.
 */
public class SegmentSource extends PythonDataSourceV2 implements DataSourceRegister {
    private static final String NAME = "kohort-segments";
    private static final String NAME_IN_PYTHON = "kohort-segments-python";

    public String shortName() {
        return NAME;
    }

    /** Spark tells a Python source its name: two can't share one. */
    public void setShortName(String name) {
        super.setShortName(NAME_IN_PYTHON);
    }

    public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
        return new SegmentTable(super.getTable(schema, partitioning, properties));
    }

    /** The Python source's table with scans of its own. */
    static final class SegmentTable implements Table, SupportsRead, SupportsWrite {
        private final Table python;
        private boolean isPlanned;

        SegmentTable(Table python) {
            this.python = python;
        }

        public String name() {
            return NAME;
        }

        public StructType schema() {
            return python.schema();
        }

        public Set capabilities() {
            Set capabilities = new HashSet(python.capabilities());
            capabilities.remove(TableCapability.MICRO_BATCH_READ);
            return capabilities;
        }

        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return new SegmentScanBuilder(this, options);
        }

        /** Python says that there is none. */
        public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
            return ((SupportsWrite) python).newWriteBuilder(info);
        }

        /** Plan anew: a Python source keeps its first plan, with all columns and the files of that time. */
        synchronized Scan planInPython(StructType wanted, CaseInsensitiveStringMap options) {
            if (!isPlanned && wanted.equals(schema())) {
                isPlanned = true;
                return ((SupportsRead) python).newScanBuilder(options).build();
            }
            PythonDataSourceV2 source = new PythonDataSourceV2();
            source.setShortName(NAME_IN_PYTHON);
            Table narrow = source.getTable(wanted, new Transform[0], options.asCaseSensitiveMap());
            return ((SupportsRead) narrow).newScanBuilder(options).build();
        }
    }

    static final class SegmentScanBuilder
            implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownFilters {
        private final SegmentTable table;
        private final CaseInsensitiveStringMap options;
        private StructType wanted;
        private Wanted rows = new Wanted(new Filter[0]);

        SegmentScanBuilder(SegmentTable table, CaseInsensitiveStringMap options) {
            this.table = table;
            this.options = options;
            this.wanted = table.schema();
        }

        public void pruneColumns(StructType required) {
            if (required.length() > 0) {
                wanted = required;
            } else { // To count rows no column is needed, but Python plans none without: the cheapest.
                StructField[] fields = table.schema().fields();
                StructField cheapest = fields[0];
                for (int n = 0; n < fields.length; n++) {
                    if (fields[n].dataType().defaultSize() < cheapest.dataType().defaultSize()) {
                        cheapest = fields[n];
                    }
                }
                wanted = new StructType(new StructField[] {cheapest});
            }
        }

        /** Return all of them: segments are left out by them, and Spark looks at the rows of the others. */
        public Filter[] pushFilters(Filter[] filters) {
            rows = new Wanted(filters);
            return filters;
        }

        public Filter[] pushedFilters() {
            return rows.filters();
        }

        public Scan build() {
            return new SegmentScan(table.planInPython(wanted, options), rows);
        }
    }

    static final class SegmentScan implements Scan {
        private final Scan python;
        private final Wanted rows;

        SegmentScan(Scan python, Wanted rows) {
            this.python = python;
            this.rows = rows;
        }

        public StructType readSchema() {
            return python.readSchema();
        }

        public String description() {
            return NAME + " " + readSchema().simpleString();
        }

        public Batch toBatch() {
            return new SegmentBatch(python.toBatch(), readSchema(), rows);
        }

        public CustomMetric[] supportedCustomMetrics() {
            return new CustomMetric[] {new RangesInPython()};
        }
    }

    static final class SegmentBatch implements Batch {
        private final Batch python;
        private final StructType schema;
        private final Wanted rows;

        SegmentBatch(Batch python, StructType schema, Wanted rows) {
            this.python = python;
            this.schema = schema;
            this.rows = rows;
        }

        public InputPartition[] planInputPartitions() {
            InputPartition[] planned = python.planInputPartitions();
            List<InputPartition> found = new ArrayList<>();
            for (InputPartition each : planned) {
                InputPartition range = SegmentRange.of(each);
                if (!(range instanceof SegmentRange) || rows.mayBeIn((SegmentRange) range)) {
                    found.add(range);
                }
            }
            return found.toArray(new InputPartition[0]);
        }

        public PartitionReaderFactory createReaderFactory() {
            return new SegmentReaderFactory(python.createReaderFactory(), new Columns(schema));
        }
    }

    static final class SegmentReaderFactory implements PartitionReaderFactory {
        private static final long serialVersionUID = 1L;

        private final PartitionReaderFactory python;
        private final Columns columns;

        SegmentReaderFactory(PartitionReaderFactory python, Columns columns) {
            this.python = python;
            this.columns = columns;
        }

        public PartitionReader createReader(InputPartition planned) {
            if (!(planned instanceof SegmentRange)) {
                return python.createReader(planned);
            }
            SegmentRange range = (SegmentRange) planned;
            try {
                return new SegmentReader(python, range, columns);
            } catch (LinkageError otherSpark) {
                OtherSpark.say(otherSpark);
                return python.createReader(range.python);
            }
        }
    }
}

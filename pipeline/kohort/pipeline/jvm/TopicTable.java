package kohort.spark;

import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The topics of a query as the Python source has them; a stream of them is a {@link TopicStream}. */
public final class TopicTable extends PythonTable {
    private final PythonDataSourceV2 source;
    private final String shortName;
    private final StructType columns;

    public TopicTable(PythonDataSourceV2 source, String shortName, StructType columns) {
        super(source, shortName, columns);
        this.source = source;
        this.shortName = shortName;
        this.columns = columns;
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return new PythonScanBuilder(source, shortName, columns, options) {
            @Override
            public Scan build() {
                return new TopicScan(options, pushedFilters());
            }
        };
    }

    private final class TopicScan extends PythonScan {
        private final CaseInsensitiveStringMap options;

        TopicScan(CaseInsensitiveStringMap options, Filter[] filters) {
            super(source, shortName, columns, options, filters);
            this.options = options;
        }

        @Override
        public MicroBatchStream toMicroBatchStream(String checkpoint) {
            MicroBatchStream made = super.toMicroBatchStream(checkpoint);
            if (made instanceof PythonMicroBatchStreamWithTriggerAvailableNow python) {
                return new TopicStream(python, options);
            }
            return made;
        }
    }
}

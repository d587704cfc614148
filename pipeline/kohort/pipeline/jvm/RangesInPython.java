package kohort.spark;

import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** Shown beside the scan: how many of its tasks Python had to help with. */
public final class RangesInPython extends CustomSumMetric {
    private static final String NAME = "rangesInPython";

    public String name() {
        return NAME;
    }

    public String description() {
        return "ranges that Python read";
    }

    static final class OfTask implements CustomTaskMetric {
        private final boolean isInPython;

        OfTask(boolean isInPython) {
            this.isInPython = isInPython;
        }

        public String name() {
            return NAME;
        }

        public long value() {
            return isInPython ? 1 : 0;
        }
    }
}

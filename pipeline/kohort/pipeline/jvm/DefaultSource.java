package kohort;

import java.util.Map;

import kohort.spark.TopicTable;

import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.StructType;

/**
 * {@code format("kohort")}, which Spark looks for as {@code kohort.DefaultSource}: all of it is the Python source
 * of that name, but what a stream tells of itself.
 */
public final class DefaultSource extends PythonDataSourceV2 {
    private String shortName = "kohort";

    @Override
    public void setShortName(String given) {
        super.setShortName(given);
        shortName = given;
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new TopicTable(this, shortName, schema);
    }
}

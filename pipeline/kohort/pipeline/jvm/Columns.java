package kohort.spark;

import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Which place each column has in a row, -1 for one that is not wanted. */
final class Columns implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final String TIMESTAMP_TYPE = "timestampType";
    private static final String HEADERS = "headers";
    private static final StructType TABLE = new StructType()
        .add("key", DataTypes.BinaryType)
        .add("value", DataTypes.BinaryType)
        .add("topic", DataTypes.StringType)
        .add("partition", DataTypes.IntegerType)
        .add("offset", DataTypes.LongType)
        .add("timestamp", DataTypes.TimestampType)
        .add(TIMESTAMP_TYPE, DataTypes.IntegerType)
        .add(HEADERS, DataTypes.createArrayType(
            new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType)));

    final int count;
    final int key;
    final int value;
    final int topic;
    final int partition;
    final int offset;
    final int timestamp;
    final int timestampType;
    final int headers;

    Columns(StructType schema) {
        List<String> names = Arrays.asList(schema.fieldNames());
        count = names.size();
        key = names.indexOf("key");
        value = names.indexOf("value");
        topic = names.indexOf("topic");
        partition = names.indexOf("partition");
        offset = names.indexOf("offset");
        timestamp = names.indexOf("timestamp");
        timestampType = names.indexOf(TIMESTAMP_TYPE);
        headers = names.indexOf(HEADERS);
    }

    /** Return the columns that a query gets which asks for none. */
    static StructType table(boolean hasTimestampType, boolean hasHeaders) {
        return new StructType(Arrays.stream(TABLE.fields())
            .filter(each -> hasTimestampType || !each.name().equals(TIMESTAMP_TYPE))
            .filter(each -> hasHeaders || !each.name().equals(HEADERS))
            .toArray(StructField[]::new));
    }

    /** Return the columns that the user wants, if there are such. */
    static StructType checked(StructType wanted) {
        for (StructField each : wanted.fields()) {
            boolean isKnown = Arrays.asList(TABLE.fieldNames()).contains(each.name())
                && TABLE.apply(each.name()).dataType().equals(each.dataType());
            if (!isKnown) {
                throw new OptionException("there is no column " + told(each) + "; there are "
                    + Arrays.stream(TABLE.fields()).map(Columns::told).collect(Collectors.joining(", ")));
            }
        }
        return wanted;
    }

    private static String told(StructField column) {
        return column.name() + " " + column.dataType().simpleString();
    }
}

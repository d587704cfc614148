package kohort.spark;

import java.io.Serializable;
import java.util.Arrays;
import java.util.List;

import org.apache.spark.sql.types.StructType;

/** Which place each column has in a row, -1 for one that is not wanted. */
final class Columns implements Serializable {
    private static final long serialVersionUID = 1L;

    final int count;
    final int key;
    final int value;
    final int topic;
    final int partition;
    final int offset;
    final int timestamp;
    final int headers;

    Columns(StructType schema) {
        List names = Arrays.asList(schema.fieldNames());
        count = names.size();
        key = names.indexOf("key");
        value = names.indexOf("value");
        topic = names.indexOf("topic");
        partition = names.indexOf("partition");
        offset = names.indexOf("offset");
        timestamp = names.indexOf("timestamp");
        headers = names.indexOf("headers");
    }
}

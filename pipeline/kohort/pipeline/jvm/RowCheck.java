package kohort.spark;

import java.io.IOException;

import kohort.DefaultSource;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/**
 * Uses, as it is made, what is taken of Spark without a promise that it stays: the writers of rows, and tables
 * of Python sources.
 *
 * <p>A Spark that has them otherwise says so by a {@code LinkageError}, before there is a query.
 */
public final class RowCheck {
    public RowCheck() throws IOException {
        StructType schema = Columns.table(true, true);
        SegmentRange one = new SegmentRange("", "t", 7, 0, 1, 0, 0, -1, false, false, new long[0]);
        SegmentReader reader = new SegmentReader(one, new Columns(schema));
        reader.readSample();
        InternalRow row = reader.get();
        if (row.numFields() != schema.length() || row.getInt(schema.fieldIndex("partition")) != 7) {
            throw new LinkageError("rows come out otherwise than they were written");
        }
        new TopicTable(new DefaultSource(), "kohort", schema).name();
    }
}

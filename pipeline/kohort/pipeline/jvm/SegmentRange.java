package kohort.spark;

import java.io.IOException;
import java.util.Map;

import net.razorvine.pickle.Unpickler;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;

/** What one task reads, as {@code kohort.pipeline.segment_source.SegmentRange} says it. */
final class SegmentRange implements InputPartition {
    private static final long serialVersionUID = 1L;

    final InputPartition python;
    final String path;
    final String topic;
    final int partition;
    final long start;
    final long end;
    final long position;
    final long sizeBytes;
    /** The time of the newest record, -1 where that is not known. */
    final long newestMs;
    final boolean checkCrcs;
    /** Of each aborted transaction: producer id, first offset, the offset of its marker. */
    final long[] aborted;

    SegmentRange(InputPartition python, Map told) {
        this.python = python;
        path = (String) told.get("path");
        topic = (String) told.get("topic");
        partition = ((Number) told.get("partition")).intValue();
        start = ((Number) told.get("start")).longValue();
        end = ((Number) told.get("end")).longValue();
        position = ((Number) told.get("position")).longValue();
        sizeBytes = ((Number) told.get("size_bytes")).longValue();
        newestMs = ((Number) told.get("newest_ms")).longValue();
        checkCrcs = ((Boolean) told.get("check_crcs")).booleanValue();
        Object[] transactions = (Object[]) told.get("aborted");
        aborted = new long[3 * transactions.length];
        for (int n = 0; n < aborted.length; n++) {
            aborted[n] = ((Number) ((Object[]) transactions[n / 3])[n % 3]).longValue();
        }
    }

    /** Return what Python has planned in the JVM's terms, or as it is where it is no range. */
    static InputPartition of(InputPartition planned) {
        byte[] pickled = ((PythonInputPartition) planned).pickedPartition();
        Object told;
        try {
            told = new Unpickler().loads(pickled);
        } catch (IOException error) {
            throw new IllegalStateException("Python planned what can't be read", error);
        }
        boolean isRange = told instanceof Map && ((Map) told).containsKey("size_bytes");
        return isRange ? new SegmentRange(planned, (Map) told) : planned;
    }
}

package kohort.spark;

import org.apache.spark.sql.connector.read.InputPartition;

/** What one task reads: the offsets of a segment from {@code start} up to {@code end}. */
final class SegmentRange implements InputPartition {
    private static final long serialVersionUID = 1L;

    final String path;
    final String topic;
    final int partition;
    final long start;
    final long end;
    /** Where to begin in the file. */
    final long position;
    /** The file's size when the query was planned: a broker may write on behind it. */
    final long sizeBytes;
    /** The time of the newest record, -1 where that is not known: it may be written to still. */
    final long newestMs;
    /** Whether it is the end of its log, of which a crash may have torn the last batch. */
    final boolean isLast;
    final boolean checkCrcs;
    /** Of each aborted transaction: producer id, first offset, the offset of its marker. */
    final long[] aborted;

    SegmentRange(
            String path, String topic, int partition, long start, long end, long position, long sizeBytes,
            long newestMs, boolean isLast, boolean checkCrcs, long[] aborted) {
        this.path = path;
        this.topic = topic;
        this.partition = partition;
        this.start = start;
        this.end = end;
        this.position = position;
        this.sizeBytes = sizeBytes;
        this.newestMs = newestMs;
        this.isLast = isLast;
        this.checkCrcs = checkCrcs;
        this.aborted = aborted;
    }

    @Override
    public String toString() {
        return path + " [" + start + ", " + end + ")";
    }
}

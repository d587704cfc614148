package kohort.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Objects;
import java.util.zip.CRC32C;

import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeArrayWriter;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.unsafe.types.UTF8String;

/** The rows of a range: batch for batch from the file, record for record into the same row. */
final class SegmentReader implements PartitionReader {
    private static final int HEADER_BYTES = 61;
    private static final int LENGTH_AT = 8;
    private static final int LOG_OVERHEAD_BYTES = 12;
    private static final int MAGIC_AT = 16;
    private static final int CRC_AT = 17;
    private static final int ATTRIBUTES_AT = 21;
    private static final int LAST_OFFSET_DELTA_AT = 23;
    private static final int BASE_TIMESTAMP_AT = 27;
    private static final int MAX_TIMESTAMP_AT = 35;
    private static final int PRODUCER_ID_AT = 43;
    private static final int COUNT_AT = 57;
    private static final int CODEC_MASK = 7;
    private static final int APPEND_TIME = 8;
    private static final int TRANSACTIONAL = 16;
    private static final int CONTROL = 32;
    private static final int CHUNK_BYTES = 256 << 10;
    private static final int ROW_BYTES = 16 << 10;
    private static final long MOST_BATCH_BYTES = 256L << 20;

    private final PartitionReaderFactory factory;
    private final SegmentRange wanted;
    private final Columns columns;
    private final UnsafeRowWriter writer;
    private final UnsafeArrayWriter pairs;
    private final UnsafeRowWriter pair;
    private final UTF8String topic;
    private final CRC32C crc = new CRC32C();
    private final Decompressor decompressed = new Decompressor();

    private PartitionReader python;
    private long given;
    private FileChannel file;
    private Object fileKey;
    /** A part of the file: from {@code begin} up to {@code stop} lies what comes at {@code position}. */
    private byte[] chunk = new byte[CHUNK_BYTES];
    private int begin;
    private int stop;
    private long position;

    /** The batch under way: its records that are left lie from {@code at} up to {@code behind}. */
    private byte[] records;
    private int at;
    private int behind;
    private int left;
    private long baseOffset;
    private long lastOffset = -1;
    private long previousOffset;
    private long baseTimestamp;
    private boolean hasAppendTime;
    private long appendTime;

    SegmentReader(PartitionReaderFactory factory, SegmentRange wanted, Columns columns) {
        this.factory = factory;
        this.wanted = wanted;
        this.columns = columns;
        position = wanted.position;
        topic = UTF8String.fromString(wanted.topic);
        writer = new UnsafeRowWriter(columns.count, ROW_BYTES);
        pairs = new UnsafeArrayWriter(writer, 8);
        pair = new UnsafeRowWriter(pairs, 2);
    }

    public Object get() {
        return python == null ? writer.getRow() : python.get();
    }

    public boolean next() throws IOException {
        if (python != null) {
            return python.next();
        }
        try {
            do {
                while (left > 0) {
                    left--;
                    if (readRecord()) {
                        given++;
                        return true;
                    }
                }
            } while (readBatch());
            return false;
        } catch (ClosedByInterruptException interrupted) {
            throw interrupted; // The task is to end, which is no fault of the file's.
        } catch (IOException unsound) {
            return askPython();
        } catch (IndexOutOfBoundsException unsound) {
            return askPython();
        } catch (LinkageError otherSpark) {
            OtherSpark.say(otherSpark);
            return askPython();
        }
    }

    public CustomTaskMetric[] currentMetricsValues() {
        return new CustomTaskMetric[] {new RangesInPython.OfTask(python != null)};
    }

    public void close() throws IOException {
        decompressed.close();
        if (file != null) {
            file.close();
        }
        if (python != null) {
            python.close();
        }
    }

    /** Have Python read the range anew, and pass over the rows that were given; the file has to be the same. */
    private boolean askPython() throws IOException {
        python = factory.createReader(wanted.python);
        for (long n = 0; n < given; n++) {
            if (!python.next()) {
                throw isReplaced() ? replaced() : new IOException(wanted.path + " has fewer records now");
            }
            python.get(); // Without it Spark's reader would stay where it is.
        }
        boolean isMore = python.next(); // Python has opened the file by now, or has said why it could not.
        if (given > 0 && isReplaced()) {
            throw replaced();
        }
        return isMore;
    }

    /** Return whether the name has another file now: a cleaner puts a shorter one in its place. */
    private boolean isReplaced() throws IOException {
        try {
            return !Objects.equals(fileKey, keyOf(Paths.get(wanted.path)));
        } catch (NoSuchFileException deleted) {
            return true;
        }
    }

    private IOException replaced() {
        return new IOException(wanted.path + " was cleaned or deleted while the query read it: run it again");
    }

    private static Object keyOf(Path path) throws IOException {
        return Files.readAttributes(path, BasicFileAttributes.class).fileKey();
    }

    /** Go to the next batch with records for the user; return false behind the last. */
    private boolean readBatch() throws IOException {
        if (records != null && at != behind) {
            throw new Unsound("a batch is longer than its records");
        }
        records = null;
        while (position < wanted.sizeBytes) {
            previousOffset = lastOffset;
            need(HEADER_BYTES);
            baseOffset = longAt(0);
            if (chunk[begin + MAGIC_AT] != 2 || intAt(LENGTH_AT) < HEADER_BYTES - LOG_OVERHEAD_BYTES) {
                throw new Unsound("no batch");
            }
            long size = (long) intAt(LENGTH_AT) + LOG_OVERHEAD_BYTES;
            need(size);
            int attributes = chunk[begin + ATTRIBUTES_AT + 1];
            lastOffset = baseOffset + intAt(LAST_OFFSET_DELTA_AT);
            int count = intAt(COUNT_AT);
            boolean isInOrder = baseOffset > previousOffset && lastOffset >= baseOffset && count >= 0;
            if (!isInOrder || wanted.checkCrcs && !isSound((int) size)) {
                throw new Unsound("no sound batch, or out of order");
            }
            if (baseOffset >= wanted.end) {
                return false;
            }
            boolean isHidden = count == 0 || lastOffset < wanted.start || (attributes & CONTROL) != 0;
            if (!isHidden && !((attributes & TRANSACTIONAL) != 0 && wasAborted())) {
                open(attributes, count, (int) size);
            }
            position += size;
            begin += (int) size;
            if (records != null) {
                return true;
            }
        }
        return false;
    }

    private void open(int attributes, int count, int size) throws IOException {
        baseTimestamp = longAt(BASE_TIMESTAMP_AT);
        hasAppendTime = (attributes & APPEND_TIME) != 0;
        appendTime = longAt(MAX_TIMESTAMP_AT);
        int codec = attributes & CODEC_MASK;
        if (codec == 0) {
            records = chunk;
            at = begin + HEADER_BYTES;
            behind = begin + size;
        } else {
            behind = decompressed.read(codec, chunk, begin + HEADER_BYTES, size - HEADER_BYTES);
            records = decompressed.data;
            at = 0;
        }
        left = count;
    }

    private boolean isSound(int size) {
        crc.reset();
        crc.update(chunk, begin + ATTRIBUTES_AT, size - ATTRIBUTES_AT);
        return (int) crc.getValue() == intAt(CRC_AT);
    }

    private boolean wasAborted() {
        long producerId = longAt(PRODUCER_ID_AT);
        long[] aborted = wanted.aborted;
        for (int n = 0; n < aborted.length; n += 3) {
            if (aborted[n] == producerId && aborted[n + 1] <= lastOffset && baseOffset <= aborted[n + 2]) {
                return true;
            }
        }
        return false;
    }

    /** Have so many bytes of what comes in the chunk. */
    private void need(long size) throws IOException {
        if (stop - begin >= size) {
            return;
        }
        if (position + size > wanted.sizeBytes || size > MOST_BATCH_BYTES) {
            throw new Unsound("the file ends within a batch, or a batch is larger than is read here");
        }
        byte[] target = size > chunk.length ? new byte[(int) size] : chunk;
        System.arraycopy(chunk, begin, target, 0, stop - begin);
        stop -= begin;
        begin = 0;
        chunk = target;
        if (file == null) {
            fileKey = keyOf(Paths.get(wanted.path)); // Before it is opened: another one shows later.
            file = FileChannel.open(Paths.get(wanted.path), StandardOpenOption.READ);
        }
        while (stop < size) {
            long place = position + stop;
            int most = (int) Math.min((long) (chunk.length - stop), wanted.sizeBytes - place);
            int read = file.read(ByteBuffer.wrap(chunk, stop, most), place);
            if (read < 0) {
                throw new Unsound("the file has become shorter");
            }
            stop += read;
        }
    }

    private int intAt(int field) {
        byte[] data = chunk;
        int place = begin + field;
        return data[place] << 24 | (data[place + 1] & 255) << 16 | (data[place + 2] & 255) << 8
            | data[place + 3] & 255;
    }

    private long longAt(int field) {
        return (long) intAt(field) << 32 | intAt(field + 4) & 0xFFFFFFFFL;
    }

    /** Write the next record as a row; return false if it is not in the range. */
    private boolean readRecord() throws IOException {
        int size = varint();
        int end = at + size;
        if (size < 0 || end > behind) {
            throw new Unsound("a record ends behind its batch");
        }
        at++; // Its attributes, of which there are none yet.
        long timestamp = baseTimestamp + varlong();
        long offset = baseOffset + varint();
        int keySize = varint();
        int keyAt = at;
        at += Math.max(keySize, 0);
        int valueSize = varint();
        int valueAt = at;
        at += Math.max(valueSize, 0);
        int headersAt = at;
        int headers = varint();
        if (headers < 0) {
            throw new Unsound("less headers than none");
        }
        for (int n = 0; n < headers; n++) {
            skipHeader();
        }
        if (at != end) {
            throw new Unsound("a record is not as long as it says");
        }
        if (offset <= previousOffset || offset > lastOffset) {
            throw new Unsound("a record out of order");
        }
        previousOffset = offset;
        if (offset < wanted.start || offset >= wanted.end) {
            return false;
        }
        writer.reset();
        writer.zeroOutNullBytes();
        if (columns.key >= 0) {
            writeBytes(columns.key, keyAt, keySize);
        }
        if (columns.value >= 0) {
            writeBytes(columns.value, valueAt, valueSize);
        }
        if (columns.topic >= 0) {
            writer.write(columns.topic, topic);
        }
        if (columns.partition >= 0) {
            writer.write(columns.partition, wanted.partition);
        }
        if (columns.offset >= 0) {
            writer.write(columns.offset, offset);
        }
        if (columns.timestamp >= 0) {
            writeTime(hasAppendTime ? appendTime : timestamp);
        }
        if (columns.headers >= 0) {
            writeHeaders(headersAt);
        }
        return true;
    }

    private void skipHeader() throws IOException {
        int nameSize = varint();
        if (nameSize < 0) {
            throw new Unsound("a header without a name");
        }
        at += nameSize;
        int valueSize = varint();
        at += Math.max(valueSize, 0);
    }

    private void writeHeaders(int from) throws IOException {
        int end = at;
        at = from;
        int count = varint();
        int arrayAt = writer.cursor();
        pairs.initialize(count);
        for (int n = 0; n < count; n++) {
            int pairAt = pairs.cursor();
            pair.resetRowWriter();
            int nameSize = varint();
            UTF8String name = UTF8String.fromBytes(records, at, nameSize);
            if (!name.isValid()) {
                throw new Unsound("a name that is no UTF-8");
            }
            pair.write(0, name);
            at += nameSize;
            int valueSize = varint();
            if (valueSize < 0) {
                pair.setNullAt(1);
            } else {
                pair.write(1, records, at, valueSize);
                at += valueSize;
            }
            pairs.setOffsetAndSizeFromPreviousCursor(n, pairAt);
        }
        writer.setOffsetAndSizeFromPreviousCursor(columns.headers, arrayAt);
        at = end;
    }

    private void writeBytes(int column, int from, int size) {
        if (size < 0) {
            writer.setNullAt(column);
        } else {
            writer.write(column, records, from, size);
        }
    }

    private void writeTime(long milliseconds) {
        if (milliseconds < 0) { // -1 is Kafka's word for none.
            writer.setNullAt(columns.timestamp);
        } else {
            writer.write(columns.timestamp, milliseconds * 1000);
        }
    }

    private int varint() throws IOException {
        byte first = records[at++];
        if (first >= 0) {
            return first >>> 1 ^ -(first & 1);
        }
        int zigzag = first & 127;
        for (int shift = 7; shift < 35; shift += 7) {
            byte next = records[at++];
            zigzag |= (next & 127) << shift;
            if (next >= 0) {
                if (shift == 28 && next > 15) {
                    break;
                }
                return zigzag >>> 1 ^ -(zigzag & 1);
            }
        }
        throw new Unsound("a variable length integer of more than 32 bits");
    }

    private long varlong() throws IOException {
        long zigzag = 0;
        for (int shift = 0; shift < 70; shift += 7) {
            byte next = records[at++];
            zigzag |= (long) (next & 127) << shift;
            if (next >= 0) {
                return zigzag >>> 1 ^ -(zigzag & 1);
            }
        }
        throw new Unsound("a variable length integer of more than ten bytes");
    }
}

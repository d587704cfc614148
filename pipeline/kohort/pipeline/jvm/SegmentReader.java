package kohort.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.NoSuchFileException;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.zip.CRC32C;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeArrayWriter;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.unsafe.types.UTF8String;

/** The rows of a range: batch for batch from the file, record for record into the same row. */
final class SegmentReader implements PartitionReader<InternalRow> {
    private static final int CHUNK_BYTES = 256 << 10;
    private static final int ROW_BYTES = 16 << 10;
    private static final byte[] SAMPLE = {24, 0, 0, 0, 2, 'k', 2, 'v', 2, 2, 'n', 2, 'v'};
    private static final int UNSEEN_BYTES = 16 << 20;
    private static final int MOST_BYTES = Integer.MAX_VALUE - 8;

    private final SegmentRange wanted;
    private final Columns columns;
    private final UnsafeRowWriter writer;
    private final UnsafeArrayWriter pairs;
    private final UnsafeRowWriter pair;
    private final UTF8String topic;
    private final CRC32C crc = new CRC32C();
    private final Decompressor decompressed = new Decompressor();

    private FileChannel file;
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
    private long timestampMs;

    SegmentReader(SegmentRange wanted, Columns columns) {
        this.wanted = wanted;
        this.columns = columns;
        position = wanted.position;
        topic = UTF8String.fromString(wanted.topic);
        writer = new UnsafeRowWriter(columns.count, ROW_BYTES);
        pairs = new UnsafeArrayWriter(writer, 8);
        pair = new UnsafeRowWriter(pairs, 2);
    }

    public InternalRow get() {
        return writer.getRow();
    }

    /** Return the offset of the record at hand. */
    long offset() {
        return previousOffset;
    }

    /** Return the time of the record at hand, below 0 for none. */
    long timestampMs() {
        return timestampMs;
    }

    public boolean next() throws IOException {
        try {
            do {
                while (left > 0) {
                    left--;
                    if (readRecord()) {
                        return true;
                    }
                }
            } while (readBatch());
            return false;
        } catch (IndexOutOfBoundsException early) {
            throw damaged("the records of the batch at offset " + baseOffset + " end early");
        }
    }

    public void close() throws IOException {
        decompressed.close();
        if (file != null) {
            file.close();
        }
    }

    private SegmentException.Damaged damaged(String what) {
        return new SegmentException.Damaged(wanted.path, what);
    }

    private SegmentException.Damaged badRecord(String what) {
        return damaged("the batch at offset " + baseOffset + " has " + what);
    }

    /** Go to the next batch with records for the user; return false behind the last. */
    private boolean readBatch() throws IOException {
        if (records != null && at != behind) {
            throw damaged("the batch at " + baseOffset + " is not as long as its records");
        }
        records = null;
        while (position < wanted.sizeBytes && nextOffset() < wanted.end) {
            long size = wholeSize();
            boolean isSound = isReadable(size);
            if (isSound && wanted.checkCrcs && (wanted.isLast || longAt(0) < wanted.end)) {
                isSound = isSealed((int) size);
                if (!isSound && !wanted.isLast) {
                    throw damaged("the batch at offset " + longAt(0) + " does not have the CRC that it says");
                }
            }
            if (!isSound) {
                if (wanted.isLast && isTorn(size)) {
                    return false;
                }
                throw damaged("what lies at " + position + ", offset " + nextOffset() + ", is no sound batch");
            }
            baseOffset = longAt(0);
            if (lastOffset < 0 && wanted.position > 0 && baseOffset > wanted.start) {
                throw SegmentException.DataLoss.rewritten(wanted.path); // An index led to it, and not behind it.
            }
            if (baseOffset >= wanted.end) {
                skip(size);
                return false;
            }
            checkOrder();
            previousOffset = lastOffset;
            lastOffset = baseOffset + intAt(BatchHeader.LAST_OFFSET_DELTA_AT);
            int attributes = chunk[begin + BatchHeader.ATTRIBUTES_AT + 1];
            int count = intAt(BatchHeader.COUNT_AT);
            boolean isHidden = count == 0 || lastOffset < wanted.start || (attributes & BatchHeader.CONTROL) != 0;
            if (!isHidden && !((attributes & BatchHeader.TRANSACTIONAL) != 0 && wasAborted())) {
                open(attributes, count, (int) size);
            }
            position += size;
            begin += (int) size;
            if (records != null) {
                return true;
            }
        }
        checkFollowing();
        return false;
    }

    private void checkOrder() {
        if (longAt(0) <= lastOffset) {
            throw damaged("the batch at offset " + longAt(0) + " lies behind offset " + lastOffset);
        }
    }

    /**
     * Pass over a batch that begins behind the range, and have the one after it say whether that may be: a base
     * offset is outside the CRC, and one that is damaged would end the range early.
     */
    private void skip(long size) throws IOException {
        lastOffset = baseOffset + intAt(BatchHeader.LAST_OFFSET_DELTA_AT);
        position += size;
        begin += (int) size;
        if (isBatchNext()) {
            checkOrder();
        }
    }

    /** Where a batch says that it goes on behind the range, have the one after it say whether that may be. */
    private void checkFollowing() throws IOException {
        if (lastOffset >= wanted.end && isBatchNext() && longAt(0) < wanted.end) {
            checkOrder();
        }
    }

    private boolean isBatchNext() throws IOException {
        long size = wholeSize();
        return isReadable(size) && (!wanted.checkCrcs || !wanted.isLast || isSealed((int) size));
    }

    private long nextOffset() {
        return Math.max(wanted.start, lastOffset + 1);
    }

    /** Return how large the batch that comes next says it is, 0 where it is none, or not all of it is there. */
    private long wholeSize() throws IOException {
        if (position + BatchHeader.BYTES > wanted.sizeBytes) {
            return 0;
        }
        need(BatchHeader.BYTES);
        long size = (long) intAt(BatchHeader.LENGTH_AT) + BatchHeader.LOG_OVERHEAD_BYTES;
        boolean isBatch = chunk[begin + BatchHeader.MAGIC_AT] == BatchHeader.MAGIC && size >= BatchHeader.BYTES;
        return isBatch && size <= MOST_BYTES && position + size <= wanted.sizeBytes ? size : 0;
    }

    /**
     * Have a batch in the chunk whose header has sense; return false where there is none.
     *
     * <p>A large one has the CRC that it says before there is room made for it: its length may be damaged.
     */
    private boolean isReadable(long size) throws IOException {
        if (size == 0 || size > UNSEEN_BYTES && !isSealedInFile(size)) {
            return false;
        }
        need((int) size);
        return isSensible();
    }

    private boolean isSealedInFile(long size) throws IOException {
        ByteBuffer piece = ByteBuffer.allocate(CHUNK_BYTES);
        long place = position + BatchHeader.ATTRIBUTES_AT;
        crc.reset();
        while (place < position + size) {
            piece.clear().limit((int) Math.min(CHUNK_BYTES, position + size - place));
            int read = readAt(piece, place);
            crc.update(piece.flip());
            place += read;
        }
        return (int) crc.getValue() == intAt(BatchHeader.CRC_AT);
    }

    private boolean isSensible() {
        return intAt(BatchHeader.LAST_OFFSET_DELTA_AT) >= 0 && intAt(BatchHeader.COUNT_AT) >= 0;
    }

    private boolean isSealed(int size) {
        crc.reset();
        crc.update(chunk, begin + BatchHeader.ATTRIBUTES_AT, size - BatchHeader.ATTRIBUTES_AT);
        return (int) crc.getValue() == intAt(BatchHeader.CRC_AT);
    }

    /**
     * Return whether what is left, a damaged batch of this size first, is what a crash left of the last write.
     * It is not when a sound batch follows: then the damage is in the middle, and recovery would not mend it.
     */
    private boolean isTorn(long size) throws IOException {
        if (size == 0) {
            return true;
        }
        position += size;
        begin += (int) size;
        long following = wholeSize();
        boolean isFollowed = isReadable(following) && isSealed((int) following);
        position -= size;
        return !isFollowed;
    }

    private void open(int attributes, int count, int size) throws IOException {
        baseTimestamp = longAt(BatchHeader.BASE_TIMESTAMP_AT);
        hasAppendTime = (attributes & BatchHeader.APPEND_TIME) != 0;
        appendTime = longAt(BatchHeader.MAX_TIMESTAMP_AT);
        int codec = attributes & BatchHeader.CODEC_MASK;
        if (codec == 0) {
            records = chunk;
            at = begin + BatchHeader.BYTES;
            behind = begin + size;
        } else {
            try {
                behind = decompressed.read(codec, chunk, begin + BatchHeader.BYTES, size - BatchHeader.BYTES);
            } catch (IOException | IndexOutOfBoundsException error) {
                String what = "the batch at offset " + baseOffset + " can't be decompressed: " + error.getMessage();
                throw new SegmentException.Damaged(wanted.path, what, error);
            }
            records = decompressed.data;
            at = 0;
        }
        left = count;
    }

    private boolean wasAborted() {
        long producerId = longAt(BatchHeader.PRODUCER_ID_AT);
        long[] aborted = wanted.aborted;
        for (int n = 0; n < aborted.length; n += 3) {
            if (aborted[n] == producerId && aborted[n + 1] <= lastOffset && baseOffset <= aborted[n + 2]) {
                return true;
            }
        }
        return false;
    }

    /** Have so many bytes of what comes in the chunk. */
    private void need(int size) throws IOException {
        if (stop - begin >= size) {
            return;
        }
        byte[] target = size > chunk.length ? new byte[size] : chunk;
        int kept = Math.max(stop - begin, 0);
        System.arraycopy(chunk, Math.min(begin, stop), target, 0, kept);
        stop = kept;
        begin = 0;
        chunk = target;
        while (stop < size) {
            long place = position + stop;
            int most = (int) Math.min((long) (chunk.length - stop), wanted.sizeBytes - place);
            stop += readAt(ByteBuffer.wrap(chunk, stop, most), place);
        }
    }

    /** Return how many bytes of the file, one or more, were put into {@code target}. */
    private int readAt(ByteBuffer target, long place) throws IOException {
        int read;
        try {
            if (file == null) {
                file = FileChannel.open(Paths.get(wanted.path), StandardOpenOption.READ);
            }
            read = file.read(target, place);
        } catch (ClosedByInterruptException cancelled) {
            throw cancelled;
        } catch (NoSuchFileException deleted) {
            throw SegmentException.DataLoss.notThere(wanted.path);
        } catch (IOException error) {
            throw SegmentException.unreadable(wanted.path, error);
        }
        if (read < 0) {
            throw SegmentException.DataLoss.shorter(wanted.path);
        }
        return read;
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
            throw badRecord("a record that ends behind it");
        }
        at++; // Its attributes, of which there are none yet.
        timestampMs = baseTimestamp + varlong();
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
            throw badRecord("a record with less headers than none");
        }
        for (int n = 0; n < headers; n++) {
            skipHeader();
        }
        if (at != end) {
            throw badRecord("a record that is not as long as it says");
        }
        if (offset <= previousOffset || offset > lastOffset) {
            throw badRecord("a record out of order, at offset " + offset);
        }
        previousOffset = offset;
        if (hasAppendTime) {
            timestampMs = appendTime;
        }
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
            writeTime(timestampMs);
        }
        if (columns.timestampType >= 0) {
            writer.write(columns.timestampType, hasAppendTime ? 1 : 0);
        }
        if (columns.headers >= 0) {
            if (headers == 0) { // As Spark's Kafka source has it.
                writer.setNullAt(columns.headers);
            } else {
                writeHeaders(headersAt);
            }
        }
        return true;
    }

    /** Make a row of a record that has something in each column, whatever the file holds. */
    void readSample() throws IOException {
        records = SAMPLE;
        behind = SAMPLE.length;
        lastOffset = 0;
        previousOffset = -1;
        readRecord();
    }

    private void skipHeader() throws IOException {
        int nameSize = varint();
        if (nameSize < 0) {
            throw badRecord("a record header without a name");
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
            if (!name.isValid()) { // As a String of Kafka's Java client has it.
                name = UTF8String.fromString(new String(records, at, nameSize, StandardCharsets.UTF_8));
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
        throw badRecord("a variable length integer of more than 32 bits");
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
        throw badRecord("a variable length integer of more than ten bytes");
    }
}

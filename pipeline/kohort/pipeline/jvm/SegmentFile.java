package kohort.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.function.Predicate;
import java.util.zip.CRC32;

/**
 * One {@code .log} file with what lies beside it, on the driver while it plans.
 *
 * <p>Of {@code .index} an entry is a relative offset and a position: the batch that begins there ends with the
 * offset. Of {@code .timeindex} it is a time and a relative offset: nothing up to the offset is newer. A running
 * broker of Kafka's keeps zeros behind both. Source: org.apache.kafka.storage.internals.log.OffsetIndex, TimeIndex.
 */
final class SegmentFile {
    static final String SUFFIX = ".log";
    private static final int OFFSET_ENTRY_BYTES = 8;
    private static final int TIME_ENTRY_BYTES = 12;
    private static final int OLD_LEAST_BYTES = 14;
    private static final int OLD_MOST_BYTES = 16 << 20;
    private static final int CHUNK_BYTES = 64 << 10;

    final Path path;
    final long baseOffset;

    SegmentFile(Path path, long baseOffset) {
        this.path = path;
        this.baseOffset = baseOffset;
    }

    long sizeBytes() throws IOException {
        return Files.size(path);
    }

    /** Return a position from which an offset is found by going on from batch to batch. */
    long positionOf(long offset) throws IOException {
        ByteBuffer entries = entries(".index", OFFSET_ENTRY_BYTES);
        long relative = offset - baseOffset;
        int place = count(entries, OFFSET_ENTRY_BYTES, at -> entries.getInt(at) <= relative);
        return place == 0 ? 0 : entries.getInt((place - 1) * OFFSET_ENTRY_BYTES + 4);
    }

    /** Return a position before which no record is as new. */
    long positionOfTime(long timestampMs) throws IOException {
        ByteBuffer entries = entries(".timeindex", TIME_ENTRY_BYTES);
        int place = count(entries, TIME_ENTRY_BYTES, at -> entries.getLong(at) < timestampMs);
        return place == 0 ? 0 : positionOf(baseOffset + entries.getInt((place - 1) * TIME_ENTRY_BYTES + 8));
    }

    /** Return the time of the newest record of a sealed segment, -1 where its index does not say. */
    long newestMs() throws IOException {
        ByteBuffer entries = entries(".timeindex", TIME_ENTRY_BYTES);
        return entries.limit() == 0 ? -1 : entries.getLong(entries.limit() - TIME_ENTRY_BYTES);
    }

    /** Return the offset behind the last whole batch. */
    long endOffset() throws IOException {
        ByteBuffer entries = entries(".index", OFFSET_ENTRY_BYTES);
        Walk batches = walk(entries.limit() == 0 ? 0 : entries.getInt(entries.limit() - 4));
        long end = baseOffset;
        while (batches.next()) {
            end = batches.lastOffset + 1;
        }
        checkFormat(batches.behind);
        return end;
    }

    /**
     * Say so if a message as Kafka before 0.11 wrote it lies at a position, by its own CRC; all else may be torn.
     *
     * <p>It is offset int64, length int32, CRC-32 int32 of what follows, magic int8, and so on.
     */
    void checkFormat(long position) throws IOException {
        ByteBuffer head = readAt(path, position, BatchHeader.MAGIC_AT + 1);
        if (head.limit() <= BatchHeader.MAGIC_AT) {
            return;
        }
        int magic = head.get(BatchHeader.MAGIC_AT);
        int length = head.getInt(BatchHeader.LENGTH_AT);
        if (magic < 0 || magic >= BatchHeader.MAGIC || length < OLD_LEAST_BYTES || length > OLD_MOST_BYTES) {
            return;
        }
        ByteBuffer message = readAt(path, position + BatchHeader.LOG_OVERHEAD_BYTES, length);
        CRC32 crc = new CRC32();
        if (message.limit() == length) {
            crc.update(message.array(), Integer.BYTES, length - Integer.BYTES);
            if ((int) crc.getValue() == message.getInt(0)) {
                throw new SegmentException.Damaged(path.toString(), "what lies at " + position + " is in the format "
                    + magic + ", of before Kafka 0.11, which only Kafka up to 3 reads");
            }
        }
    }

    /** Return the content of a file beside it, nothing where it is not there. */
    byte[] beside(String suffix) throws IOException {
        String name = path.getFileName().toString();
        return read(path.resolveSibling(name.substring(0, name.length() - SUFFIX.length()) + suffix));
    }

    static byte[] read(Path path) throws IOException {
        try {
            return Files.readAllBytes(path);
        } catch (NoSuchFileException none) {
            return new byte[0];
        }
    }

    private ByteBuffer entries(String suffix, int entryBytes) throws IOException {
        byte[] content = beside(suffix);
        int end = content.length - content.length % entryBytes;
        while (end > 0 && isZero(content, end - entryBytes, end)) {
            end -= entryBytes;
        }
        return ByteBuffer.wrap(content, 0, end);
    }

    private static boolean isZero(byte[] content, int begin, int end) {
        for (int n = begin; n < end; n++) {
            if (content[n] != 0) {
                return false;
            }
        }
        return true;
    }

    /** Return how many entries come first of which something is true. */
    private static int count(ByteBuffer entries, int entryBytes, Predicate<Integer> isBefore) {
        int low = 0;
        int high = entries.limit() / entryBytes;
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (isBefore.test(middle * entryBytes)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    Walk walk(long position) {
        return new Walk(position);
    }

    /** The headers of whole batches, one after the other: what is cut short, or is none, is the end. */
    final class Walk {
        long position;
        long sizeBytes;
        long baseOffset;
        long lastOffset;
        long maxTimestamp;
        long producerId;
        boolean isTransactional;
        boolean isControl;
        private long behind;
        private ByteBuffer chunk = ByteBuffer.allocate(0);
        private long chunkAt;

        private Walk(long position) {
            behind = position;
        }

        boolean next() throws IOException {
            long fileBytes = Files.size(path);
            if (behind + BatchHeader.BYTES > fileBytes) {
                return false;
            }
            if (behind < chunkAt || behind + BatchHeader.BYTES > chunkAt + chunk.limit()) {
                chunk = readAt(path, behind, CHUNK_BYTES);
                chunkAt = behind;
                if (chunk.limit() < BatchHeader.BYTES) {
                    return false;
                }
            }
            int at = (int) (behind - chunkAt);
            long size = (long) chunk.getInt(at + BatchHeader.LENGTH_AT) + BatchHeader.LOG_OVERHEAD_BYTES;
            boolean isBatch = chunk.get(at + BatchHeader.MAGIC_AT) == BatchHeader.MAGIC
                && size >= BatchHeader.BYTES && behind + size <= fileBytes;
            if (!isBatch) {
                return false;
            }
            position = behind;
            sizeBytes = size;
            baseOffset = chunk.getLong(at);
            lastOffset = baseOffset + chunk.getInt(at + BatchHeader.LAST_OFFSET_DELTA_AT);
            maxTimestamp = chunk.getLong(at + BatchHeader.MAX_TIMESTAMP_AT);
            producerId = chunk.getLong(at + BatchHeader.PRODUCER_ID_AT);
            int attributes = chunk.get(at + BatchHeader.ATTRIBUTES_AT + 1);
            isTransactional = (attributes & BatchHeader.TRANSACTIONAL) != 0;
            isControl = (attributes & BatchHeader.CONTROL) != 0;
            behind += size;
            return true;
        }
    }

    /** Return so many bytes of a file, or as many as there are. */
    static ByteBuffer readAt(Path path, long position, int sizeBytes) throws IOException {
        ByteBuffer found = ByteBuffer.allocate(sizeBytes);
        try (FileChannel file = FileChannel.open(path, StandardOpenOption.READ)) {
            int read = 0;
            while (read >= 0 && found.hasRemaining()) {
                read = file.read(found, position + found.position());
            }
        } catch (NoSuchFileException deleted) {
            throw deleted;
        } catch (IOException error) {
            throw SegmentException.unreadable(path.toString(), error);
        }
        return found.flip();
    }
}

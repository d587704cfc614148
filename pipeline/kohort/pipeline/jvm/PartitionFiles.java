package kohort.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import org.apache.spark.sql.types.StructType;

/** One partition's segments in their order, and where its log begins. */
final class PartitionFiles {
    private static final Pattern FOLDER = Pattern.compile("([a-zA-Z0-9._-]+)-(\\d{1,9})");
    private static final Pattern LOG = Pattern.compile("(\\d{20})\\.log");
    private static final Pattern SNAPSHOT = Pattern.compile("(\\d{20})\\.snapshot");
    private static final Pattern START = Pattern.compile("(\\S+)\\s+(\\d+)\\s+(\\d+)");
    private static final String LOG_START_OFFSETS = "log-start-offset-checkpoint";
    private static final int SNAPSHOT_PREFIX_BYTES = 10;
    private static final int SNAPSHOT_ENTRY_BYTES = 46;
    private static final int OPEN_SINCE_AT = 38;
    private static final int ABORTED_ENTRY_BYTES = 34;

    final String topic;
    final int partition;
    final List<SegmentFile> segments;
    final long startOffset;

    private PartitionFiles(String topic, int partition, List<SegmentFile> segments, long startOffset) {
        this.topic = topic;
        this.partition = partition;
        this.segments = segments;
        this.startOffset = startOffset;
    }

    /** Return the wanted topics' partitions of a data folder, by topic and partition. */
    static List<PartitionFiles> find(SegmentOptions options) throws IOException {
        Path folder = folder(options.path);
        if (!Files.isDirectory(folder)) {
            throw new OptionException("path is '" + options.path + "': there is no such folder");
        }
        Map<String, Long> starts = logStarts(folder.resolve(LOG_START_OFFSETS));
        List<PartitionFiles> found = new ArrayList<>();
        for (Path each : listed(folder)) {
            Matcher name = FOLDER.matcher(each.getFileName().toString());
            if (!name.matches() || !options.isWanted(name.group(1)) || !Files.isDirectory(each)) {
                continue;
            }
            List<SegmentFile> segments = segmentsIn(each);
            if (!segments.isEmpty()) {
                int partition = Integer.parseInt(name.group(2));
                long start = starts.getOrDefault(name.group(1) + " " + partition, 0L);
                start = Math.max(start, segments.get(0).baseOffset);
                found.add(new PartitionFiles(name.group(1), partition, segments, start));
            }
        }
        found.sort(Comparator.<PartitionFiles, String>comparing(each -> each.topic)
            .thenComparing(each -> each.partition));
        return found;
    }

    private static Path folder(String path) {
        try {
            return Paths.get(path);
        } catch (InvalidPathException error) { // Java names files by the locale that it was started with.
            throw new OptionException("path is '" + path + "': " + error.getReason()
                + "; where it is no ASCII, start Spark with LC_ALL=C.UTF-8");
        }
    }

    private static List<Path> listed(Path folder) throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.collect(Collectors.toList());
        }
    }

    private static List<SegmentFile> segmentsIn(Path folder) throws IOException {
        List<SegmentFile> found = new ArrayList<>();
        for (Path each : listed(folder)) {
            Matcher name = LOG.matcher(each.getFileName().toString());
            if (name.matches()) {
                found.add(new SegmentFile(each, number(name.group(1))));
            }
        }
        found.sort(Comparator.comparing(each -> each.baseOffset));
        return found;
    }

    private static long number(String digits) throws IOException {
        try {
            return Long.parseLong(digits);
        } catch (NumberFormatException error) {
            throw new IOException("no offset has the number " + digits, error);
        }
    }

    /** Return where logs begin: the lines of the checkpoint behind its version and how many there are. */
    private static Map<String, Long> logStarts(Path checkpoint) throws IOException {
        Map<String, Long> found = new HashMap<>();
        String text = new String(SegmentFile.read(checkpoint), StandardCharsets.UTF_8);
        for (String line : text.lines().skip(2).collect(Collectors.toList())) {
            Matcher row = START.matcher(line.strip());
            if (row.matches()) {
                found.put(row.group(1) + " " + row.group(2), number(row.group(3)));
            }
        }
        return found;
    }

    long endOffset() throws IOException {
        return segments.get(segments.size() - 1).endOffset();
    }

    /** Return of each aborted transaction its producer's id, its first offset and that of its marker. */
    List<long[]> aborted() throws IOException {
        List<long[]> found = new ArrayList<>();
        for (SegmentFile each : segments) {
            ByteBuffer entries = ByteBuffer.wrap(each.beside(".txnindex"));
            for (int at = 0; at + ABORTED_ENTRY_BYTES <= entries.limit(); at += ABORTED_ENTRY_BYTES) {
                found.add(new long[] {entries.getLong(at + 2), entries.getLong(at + 10), entries.getLong(at + 18)});
            }
        }
        return found;
    }

    /** Return where the first transaction that is open begins, {@code end} where there is none. */
    long lastStableOffset(long end) throws IOException {
        Map<Long, Long> opened = new HashMap<>();
        long taken = readSnapshot(opened);
        for (int n = 0; n < segments.size(); n++) {
            SegmentFile segment = segments.get(n);
            if (n + 1 < segments.size() && segments.get(n + 1).baseOffset <= taken) {
                continue;
            }
            SegmentFile.Walk batch = segment.walk(segment.positionOf(taken));
            while (batch.next()) {
                if (batch.lastOffset < taken || !batch.isTransactional) {
                    continue;
                }
                if (batch.isControl) {
                    opened.remove(batch.producerId);
                } else {
                    opened.putIfAbsent(batch.producerId, batch.baseOffset);
                }
            }
        }
        long first = end;
        for (long each : opened.values()) {
            first = Math.min(first, each);
        }
        return first;
    }

    /** Put in the transactions that the newest snapshot knows as open; return the offset that it is of. */
    private long readSnapshot(Map<Long, Long> opened) throws IOException {
        TreeMap<String, Path> found = new TreeMap<>();
        for (Path each : listed(segments.get(0).path.getParent())) {
            Matcher name = SNAPSHOT.matcher(each.getFileName().toString());
            if (name.matches()) {
                found.put(name.group(1), each);
            }
        }
        if (found.isEmpty()) {
            return startOffset;
        }
        ByteBuffer content = ByteBuffer.wrap(SegmentFile.read(found.lastEntry().getValue()));
        for (int at = SNAPSHOT_PREFIX_BYTES; at + SNAPSHOT_ENTRY_BYTES <= content.limit();
                at += SNAPSHOT_ENTRY_BYTES) {
            long since = content.getLong(at + OPEN_SINCE_AT);
            if (since >= 0) {
                opened.put(content.getLong(at), since);
            }
        }
        return number(found.lastKey());
    }

    /** Return the offset of the first record that is as new, or {@code end}. */
    long offsetOfTime(long timestampMs, long end) throws IOException {
        for (SegmentFile segment : segments) {
            SegmentFile.Walk batch = segment.walk(segment.positionOfTime(timestampMs));
            while (batch.next()) {
                if (batch.maxTimestamp < timestampMs || batch.lastOffset < startOffset) {
                    continue;
                }
                long found = firstAsNew(segment, batch, timestampMs);
                if (found >= 0) {
                    return Math.min(found, end);
                }
            }
        }
        return end;
    }

    private long firstAsNew(SegmentFile segment, SegmentFile.Walk batch, long timestampMs) throws IOException {
        long start = Math.max(startOffset, batch.baseOffset);
        SegmentRange alone = new SegmentRange(
            segment.path.toString(), topic, partition, start, Long.MAX_VALUE, batch.position,
            batch.position + batch.sizeBytes, -1, false, false, new long[0]);
        try (SegmentReader records = new SegmentReader(alone, new Columns(new StructType()))) {
            while (records.next()) {
                if (records.timestampMs() >= timestampMs) {
                    return records.offset();
                }
            }
        }
        return -1;
    }
}

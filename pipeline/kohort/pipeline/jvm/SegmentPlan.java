package kohort.spark;

import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;

/** What the tasks of a query read: a range of offsets for each segment. */
final class SegmentPlan {
    private final SegmentOptions options;

    SegmentPlan(SegmentOptions options) {
        this.options = options;
    }

    /** Return the ranges, by what the files hold now. */
    List<SegmentRange> ranges() throws IOException {
        List<PartitionFiles> found = PartitionFiles.find(options);
        Set<String> missing = new TreeSet<>(options.names);
        for (PartitionFiles each : found) {
            missing.remove(each.topic);
        }
        if (!missing.isEmpty()) {
            throw new OptionException(options.path + " holds no topic " + missing.stream()
                .map(each -> "'" + each + "'").collect(Collectors.joining(", ")));
        }
        List<SegmentRange> planned = new ArrayList<>();
        for (PartitionFiles each : found) {
            try {
                plan(each, planned);
            } catch (NoSuchFileException deleted) {
                throw SegmentException.DataLoss.deleted(deleted.getFile());
            }
        }
        return planned;
    }

    private void plan(PartitionFiles files, List<SegmentRange> planned) throws IOException {
        String name = files.topic + "-" + files.partition;
        long end = files.endOffset();
        if (options.isCommitted) {
            end = files.lastStableOffset(end);
        }
        long start = offset(files, options.starting, end);
        long stop = offset(files, options.ending, end);
        if (start < files.startOffset && files.startOffset < stop || stop > end) {
            throw new SegmentException.DataLoss(
                name, name + " holds offsets from " + files.startOffset + " up to " + end);
        }
        List<long[]> aborted = options.isCommitted ? files.aborted() : new ArrayList<>();
        int last = files.segments.size() - 1;
        for (int n = 0; n <= last; n++) {
            SegmentFile segment = files.segments.get(n);
            long begin = Math.max(start, segment.baseOffset);
            long until = n < last ? Math.min(stop, files.segments.get(n + 1).baseOffset) : stop;
            if (begin < until) {
                long position = segment.positionOf(begin);
                if (n < last) {
                    segment.checkFormat(position);
                }
                planned.add(new SegmentRange(
                    segment.path.toString(), files.topic, files.partition, begin, until,
                    position, segment.sizeBytes(), n < last ? segment.newestMs() : -1, n == last,
                    options.checkCrcs, within(aborted, begin, until)));
            }
        }
    }

    private static long offset(PartitionFiles files, OffsetSpec place, long end) throws IOException {
        if (place.timestampMs >= 0) {
            return files.offsetOfTime(place.timestampMs, end);
        }
        long given = place.offset(files.topic, files.partition);
        if (given == OffsetSpec.EARLIEST) {
            return files.startOffset;
        }
        return given == OffsetSpec.LATEST ? end : given;
    }

    private static long[] within(List<long[]> aborted, long begin, long until) {
        return aborted.stream()
            .filter(each -> each[2] >= begin && each[1] < until)
            .flatMapToLong(java.util.Arrays::stream)
            .toArray();
    }
}

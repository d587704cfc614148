package kohort.spark;

import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;

/**
 * What a query's filters say of whole segments: which of them have no row that it wants.
 *
 * <p>Spark still looks at each row of those that are left. A segment is known by its topic, its partition, its
 * offsets, and, once it is sealed, by the time of its newest record.
 */
final class Wanted {
    private final List<Filter> filters = new ArrayList<>();

    Wanted(Filter[] given) {
        for (Filter each : given) {
            if (isOf(each)) {
                filters.add(each);
            }
        }
    }

    Filter[] filters() {
        return filters.toArray(new Filter[0]);
    }

    /** Return whether a segment may have rows that all filters want. */
    boolean mayBeIn(SegmentRange range) {
        for (Filter each : filters) {
            if (!mayPass(each, range)) {
                return false;
            }
        }
        return true;
    }

    private static boolean isOf(Filter filter) {
        String[] names = filter.references();
        if (names.length != 1) {
            return false;
        }
        boolean isComparison = filter instanceof EqualTo || filter instanceof In || filter instanceof GreaterThan
            || filter instanceof GreaterThanOrEqual || filter instanceof LessThan
            || filter instanceof LessThanOrEqual;
        String name = names[0];
        return isComparison && (name.equals("topic") || name.equals("partition") || name.equals("offset")
            || name.equals("timestamp"));
    }

    private static boolean mayPass(Filter filter, SegmentRange range) {
        if (filter instanceof In) {
            for (Object each : ((In) filter).values()) {
                if (each != null && mayEqual(filter.references()[0], each, range)) {
                    return true;
                }
            }
            return false;
        }
        if (filter instanceof EqualTo) {
            return mayEqual(filter.references()[0], ((EqualTo) filter).value(), range);
        }
        if (filter instanceof GreaterThan) {
            return mayReach(filter.references()[0], ((GreaterThan) filter).value(), true, range);
        }
        if (filter instanceof GreaterThanOrEqual) {
            return mayReach(filter.references()[0], ((GreaterThanOrEqual) filter).value(), false, range);
        }
        boolean isLess = filter instanceof LessThan;
        Object most = isLess ? ((LessThan) filter).value() : ((LessThanOrEqual) filter).value();
        return mayBegin(filter.references()[0], most, isLess, range);
    }

    private static boolean mayEqual(String column, Object value, SegmentRange range) {
        if (column.equals("topic")) {
            return range.topic.equals(value);
        }
        return mayReach(column, value, false, range) && mayBegin(column, value, false, range);
    }

    /** Return whether a row may have this value or more; {@code isMore}: only more. */
    private static boolean mayReach(String column, Object least, boolean isMore, SegmentRange range) {
        int needed = isMore ? 1 : 0;
        if (column.equals("partition") && least instanceof Number) {
            return Long.compare(range.partition, ((Number) least).longValue()) >= needed;
        }
        if (column.equals("offset") && least instanceof Number) {
            return Long.compare(range.end - 1, ((Number) least).longValue()) >= needed;
        }
        if (column.equals("timestamp") && range.newestMs >= 0) {
            Instant time = instant(least);
            return time == null || Integer.signum(Instant.ofEpochMilli(range.newestMs).compareTo(time)) >= needed;
        }
        return true;
    }

    /** Return whether a row may have this value or less; {@code isLess}: only less. */
    private static boolean mayBegin(String column, Object most, boolean isLess, SegmentRange range) {
        int needed = isLess ? -1 : 0;
        if (column.equals("partition") && most instanceof Number) {
            return Long.compare(range.partition, ((Number) most).longValue()) <= needed;
        }
        if (column.equals("offset") && most instanceof Number) {
            return Long.compare(range.start, ((Number) most).longValue()) <= needed;
        }
        return true; // How old the oldest record of a segment is, nobody has written down.
    }

    private static Instant instant(Object value) {
        if (value instanceof java.sql.Timestamp) {
            return ((java.sql.Timestamp) value).toInstant();
        }
        return value instanceof Instant ? (Instant) value : null;
    }
}

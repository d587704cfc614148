package kohort.spark;

import java.io.Serializable;
import java.time.DateTimeException;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

/** Where a range begins or ends: at an end of the log, at a time, or at an offset for each partition. */
final class OffsetSpec implements Serializable {
    static final long EARLIEST = -2;
    static final long LATEST = -1;
    private static final long serialVersionUID = 1L;
    private static final int MILLISECOND_DIGITS = 18;
    private static final Pattern DECIMAL = Pattern.compile("\\d+");
    private static final Pattern TIME = Pattern.compile(
        "(\\d{4})(-?)(\\d\\d)\\2(\\d\\d)(?:[Tt ](\\d\\d)(?::?(\\d\\d)(?::?(\\d\\d)(?:[.,](\\d{1,9}))?)?)?"
        + "([Zz]|[+-]\\d\\d(?::?\\d\\d)?)?)?");
    private static final ObjectMapper JSON = new ObjectMapper().enable(
        DeserializationFeature.FAIL_ON_TRAILING_TOKENS);

    /** {@code EARLIEST} or {@code LATEST}; 0 for another way to say it. */
    final long end;
    /** -1 for another way to say it. */
    final long timestampMs;
    /** By {@code topic} and partition; null for another way to say it. */
    final Map<String, Map<Integer, Long>> offsets;

    private OffsetSpec(long end, long timestampMs, Map<String, Map<Integer, Long>> offsets) {
        this.end = end;
        this.timestampMs = timestampMs;
        this.offsets = offsets;
    }

    /** Return the place that the option {@code name} says. */
    static OffsetSpec of(String name, String given) {
        String text = given.strip();
        if (text.equalsIgnoreCase("earliest")) {
            return new OffsetSpec(EARLIEST, -1, null);
        }
        if (text.equalsIgnoreCase("latest")) {
            return new OffsetSpec(LATEST, -1, null);
        }
        if (text.startsWith("{")) {
            return new OffsetSpec(0, -1, offsetsOf(name, text));
        }
        if (text.startsWith("group:") && text.length() > "group:".length()) {
            throw new OptionException("segments know no groups: give offsets or a timestamp");
        }
        if (text.startsWith("timestamp:") && text.length() > "timestamp:".length()) {
            return new OffsetSpec(0, timeMs(name, text.substring("timestamp:".length())), null);
        }
        throw new OptionException(name + " is '" + given + "': give earliest, latest, timestamp:MILLISECONDS or an"
            + " ISO 8601 time behind timestamp:, or {\"topic\": {\"0\": 42}}");
    }

    /** Return the offset for a partition. */
    long offset(String topic, int partition) {
        if (offsets == null) {
            return end;
        }
        Long found = offsets.getOrDefault(topic, Collections.emptyMap()).get(partition);
        if (found == null) {
            throw new OptionException("offsets are given, but none for " + topic + "-" + partition);
        }
        return found;
    }

    private static Map<String, Map<Integer, Long>> offsetsOf(String name, String text) {
        Map<String, Map<Integer, Long>> found = new HashMap<>();
        try {
            JsonNode topics = JSON.readTree(text);
            for (Iterator<Map.Entry<String, JsonNode>> each = topics.fields(); each.hasNext();) {
                Map.Entry<String, JsonNode> topic = each.next();
                if (!topic.getValue().isObject()) {
                    throw noOffsets(text);
                }
                Map<Integer, Long> partitions = new HashMap<>();
                for (Iterator<Map.Entry<String, JsonNode>> one = topic.getValue().fields(); one.hasNext();) {
                    Map.Entry<String, JsonNode> partition = one.next();
                    JsonNode offset = partition.getValue();
                    long number = offset.isTextual() ? Long.parseLong(offset.textValue()) : offset.longValue();
                    if (!offset.isTextual() && !offset.canConvertToLong() || offset.isFloatingPointNumber()) {
                        throw noOffsets(text);
                    }
                    if (number < EARLIEST) {
                        throw new OptionException(name + " has an offset below -2, which is earliest");
                    }
                    partitions.put(Integer.parseInt(partition.getKey()), number);
                }
                found.put(topic.getKey(), partitions);
            }
        } catch (JsonProcessingException | NumberFormatException error) {
            throw noOffsets(text);
        }
        return found;
    }

    private static OptionException noOffsets(String text) {
        return new OptionException("'" + text + "' are no offsets: give them as {\"topic\": {\"0\": 42}}");
    }

    /** Return a time in ms since 1970, given as that or as ISO 8601, in UTC unless it says otherwise. */
    private static long timeMs(String name, String text) {
        if (DECIMAL.matcher(text).matches() && text.length() <= MILLISECOND_DIGITS) {
            return Long.parseLong(text);
        }
        Matcher told = TIME.matcher(text);
        try {
            if (told.matches()) {
                String fraction = told.group(8) == null ? "" : told.group(8);
                int nanoseconds = Integer.parseInt((fraction + "000000000").substring(0, 9));
                LocalDateTime time = LocalDateTime.of(
                    number(told, 1), number(told, 3), number(told, 4),
                    number(told, 5), number(told, 6), number(told, 7), nanoseconds);
                ZoneOffset zone = told.group(9) == null
                    ? ZoneOffset.UTC : ZoneOffset.of(told.group(9).toUpperCase(java.util.Locale.ROOT));
                long roundedUp = nanoseconds % 1_000_000 >= 500_000 ? 1 : 0;
                return time.toInstant(zone).toEpochMilli() + roundedUp;
            }
        } catch (DateTimeException noTime) {
            // Said below, with what there could be.
        }
        throw new OptionException(
            name + ": '" + text + "' is no time: give 2026-01-31T12:00:00Z, or milliseconds");
    }

    private static int number(Matcher told, int group) {
        return told.group(group) == null ? 0 : Integer.parseInt(told.group(group));
    }
}

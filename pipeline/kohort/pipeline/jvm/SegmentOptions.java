package kohort.spark;

import java.io.Serializable;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/** The options of {@code kohort-segments}, as {@code kohort.pipeline.options} describes them. */
final class SegmentOptions implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final List<String> KNOWN = Arrays.asList(
        "path", "topics", "pattern", "starting", "ending", "include_headers", "include_timestamp_type",
        "isolation_level", "check_crcs");
    private static final List<String> FLAG = Arrays.asList("true", "false");
    private static final String COMMITTED = "read_committed";

    final String path;
    final OffsetSpec starting;
    final OffsetSpec ending;
    final boolean hasHeaders;
    final boolean hasTimestampType;
    final boolean isCommitted;
    final boolean checkCrcs;
    /** Names of topics; empty where there is a pattern. */
    final Set<String> names = new LinkedHashSet<>();
    private final Pattern pattern;

    SegmentOptions(Map<String, String> given) {
        for (String each : given.keySet()) {
            if (!KNOWN.contains(each.toLowerCase(Locale.ROOT))) {
                throw unknown(each.toLowerCase(Locale.ROOT));
            }
        }
        path = text(given, "path");
        if (path == null || path.isEmpty()) {
            throw new OptionException("the option 'path' is missing: give the broker's data folder");
        }
        String topics = text(given, "topics");
        String wanted = text(given, "pattern");
        if ((topics == null) == (wanted == null)) {
            throw new OptionException("give either topics, names with commas between them, or a pattern for them");
        }
        pattern = wanted == null ? null : compiled(wanted);
        if (topics != null) {
            for (String each : topics.split(",")) {
                if (!each.isBlank()) {
                    names.add(each.strip());
                }
            }
            if (names.isEmpty()) {
                throw new OptionException("topics is empty");
            }
        }
        starting = OffsetSpec.of("starting", text(given, "starting", "earliest"));
        ending = OffsetSpec.of("ending", text(given, "ending", "latest"));
        hasHeaders = choice(given, "include_headers", "false", FLAG).equals("true");
        hasTimestampType = choice(given, "include_timestamp_type", "false", FLAG).equals("true");
        isCommitted = choice(
            given, "isolation_level", COMMITTED, Arrays.asList(COMMITTED, "read_uncommitted")).equals(COMMITTED);
        checkCrcs = choice(given, "check_crcs", "true", FLAG).equals("true");
    }

    boolean isWanted(String topic) {
        return pattern == null ? names.contains(topic) : pattern.matcher(topic).matches();
    }

    private static String text(Map<String, String> given, String name) {
        for (Map.Entry<String, String> each : given.entrySet()) {
            if (each.getKey().equalsIgnoreCase(name)) {
                return each.getValue();
            }
        }
        return null;
    }

    private static String text(Map<String, String> given, String name, String otherwise) {
        String found = text(given, name);
        return found == null || found.isEmpty() ? otherwise : found;
    }

    private static String choice(
            Map<String, String> given, String name, String otherwise, List<String> choices) {
        String value = text(given, name, otherwise).toLowerCase(Locale.ROOT);
        if (!choices.contains(value)) {
            throw new OptionException(name + " is '" + value + "': give " + String.join(" or ", choices));
        }
        return value;
    }

    /** Return the pattern; named groups and the text's end may be written as Python writes them. */
    private static Pattern compiled(String wanted) {
        try {
            return Pattern.compile(wanted.replace("(?P<", "(?<").replace("\\Z", "\\z"));
        } catch (PatternSyntaxException error) {
            throw new OptionException("pattern is '" + wanted + "': " + error.getDescription());
        }
    }

    private static OptionException unknown(String name) {
        String near = null;
        int least = Integer.MAX_VALUE;
        for (String each : KNOWN) {
            int apart = distance(name, each);
            boolean isNear = 2 * apart <= Math.max(name.length(), each.length());
            if (isNear && apart < least) {
                near = each;
                least = apart;
            }
        }
        return new OptionException(
            "unknown option '" + name + "'" + (near == null ? "" : "; did you mean '" + near + "'?"));
    }

    /** Return how many letters have to be put in, left out or changed. */
    private static int distance(String one, String other) {
        int[] row = new int[other.length() + 1];
        for (int n = 0; n < row.length; n++) {
            row[n] = n;
        }
        for (int m = 1; m <= one.length(); m++) {
            int before = row[0];
            row[0] = m;
            for (int n = 1; n < row.length; n++) {
                int changed = before + (one.charAt(m - 1) == other.charAt(n - 1) ? 0 : 1);
                before = row[n];
                row[n] = Math.min(changed, 1 + Math.min(row[n], row[n - 1]));
            }
        }
        return row[other.length()];
    }
}

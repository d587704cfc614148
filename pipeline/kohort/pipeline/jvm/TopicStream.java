package kohort.spark;

import java.util.Collections;
import java.util.HashMap;
import java.util.LongSummaryStatistics;
import java.util.Map;
import java.util.Optional;
import java.util.StringJoiner;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A stream of the Python source that tells which topics it reads and how far behind it is: {@code description}
 * and {@code metrics} of a query's progress, for which Spark asks no Python source.
 *
 * <p>Source of the metrics: org.apache.spark.sql.kafka010.KafkaMicroBatchStream.
 */
final class TopicStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String NOTE = "@";

    private final PythonMicroBatchStreamWithTriggerAvailableNow python;
    private final String description;
    private Offset latest;

    TopicStream(PythonMicroBatchStreamWithTriggerAvailableNow python, CaseInsensitiveStringMap options) {
        this.python = python;
        description = "kohort[" + chosen(options) + "]";
    }

    private static String chosen(CaseInsensitiveStringMap options) {
        String topics = options.getOrDefault("topics", options.get("subscribe"));
        if (topics != null) {
            return "Subscribe[" + topics.strip().replaceAll("\\s*,\\s*", ", ") + "]";
        }
        String partitions = options.getOrDefault("partitions", options.get("assign"));
        if (partitions != null) {
            return "Assign[" + named(partitions) + "]";
        }
        return "SubscribePattern[" + options.getOrDefault("pattern", options.get("subscribePattern")) + "]";
    }

    private static String named(String partitions) {
        StringJoiner names = new StringJoiner(", ");
        try {
            JSON.readTree(partitions).fields().forEachRemaining(
                topic -> topic.getValue().forEach(each -> names.add(topic.getKey() + "-" + each.asInt())));
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException("not JSON, though Python has read it: " + partitions, error);
        }
        return names.toString();
    }

    @Override
    public String toString() {
        return description;
    }

    @Override
    public Map<String, String> metrics(Optional<Offset> consumed) {
        if (consumed.isEmpty() || latest == null) {
            return Collections.emptyMap();
        }
        Map<String, Long> reached = byPartition(consumed.get());
        LongSummaryStatistics behind = new LongSummaryStatistics();
        byPartition(latest).forEach((place, end) -> behind.accept(end - reached.getOrDefault(place, 0L)));
        if (behind.getCount() == 0) {
            return Collections.emptyMap();
        }
        return Map.of(
            "minOffsetsBehindLatest", Long.toString(behind.getMin()),
            "maxOffsetsBehindLatest", Long.toString(behind.getMax()),
            "avgOffsetsBehindLatest", Double.toString(behind.getAverage()));
    }

    private static Map<String, Long> byPartition(Offset offset) {
        JsonNode topics;
        try {
            topics = JSON.readTree(offset.json());
        } catch (JsonProcessingException error) {
            throw new IllegalStateException("the Python source has given no JSON", error);
        }
        Map<String, Long> found = new HashMap<>();
        topics.fields().forEachRemaining(topic -> {
            if (!topic.getKey().startsWith(NOTE)) {
                topic.getValue().fields().forEachRemaining(each ->
                    found.put(topic.getKey() + "-" + each.getKey(), each.getValue().asLong()));
            }
        });
        return found;
    }

    @Override
    public Offset reportLatestOffset() {
        latest = python.reportLatestOffset();
        return latest;
    }

    // All else is as the Python source has it

    @Override
    public Offset initialOffset() {
        return python.initialOffset();
    }

    @Override
    public Offset latestOffset() {
        return python.latestOffset();
    }

    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
        return python.latestOffset(start, limit);
    }

    @Override
    public ReadLimit getDefaultReadLimit() {
        return python.getDefaultReadLimit();
    }

    @Override
    public void prepareForTriggerAvailableNow() {
        python.prepareForTriggerAvailableNow();
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        return python.planInputPartitions(start, end);
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return python.createReaderFactory();
    }

    @Override
    public Offset deserializeOffset(String json) {
        return python.deserializeOffset(json);
    }

    @Override
    public void commit(Offset end) {
        python.commit(end);
    }

    @Override
    public void stop() {
        python.stop();
    }
}

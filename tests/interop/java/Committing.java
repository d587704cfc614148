import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a group that commits what it has read, until standard input ends:
 * BOOTSTRAP GROUP TOPIC SESSION_TIMEOUT_MS COMMIT_MS.
 *
 * Prints a line whenever something happens: "assigned", "record PARTITION OFFSET VALUE", "committed" with
 * PARTITION:OFFSET of all that the commit had, "refused" with the reason; "turn" after each poll; at last "closed".
 */
public final class Committing {
    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("group.id", args[1]);
        properties.put("session.timeout.ms", args[3]);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        long commitMs = Long.parseLong(args[4]);
        AtomicBoolean ends = new AtomicBoolean();
        Thread watch = new Thread(() -> waitForTheEnd(ends));
        watch.setDaemon(true);
        watch.start();
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        long committedMs = 0;
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(args[2]), new Told());
            while (!ends.get()) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println("record " + record.partition() + " " + record.offset() + " " + record.value());
                    next.put(new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
                }
                long nowMs = System.nanoTime() / 1_000_000;
                if (!next.isEmpty() && nowMs - committedMs > commitMs) {
                    committedMs = nowMs;
                    commit(consumer, next);
                }
                System.out.println("turn");
                System.out.flush();
            }
        }
        System.out.println("closed");
    }

    private static void commit(KafkaConsumer<String, String> consumer, Map<TopicPartition, OffsetAndMetadata> next) {
        try {
            consumer.commitSync(next, Duration.ofSeconds(10));
        } catch (KafkaException refused) {
            System.out.println("refused " + refused);
            return;
        }
        System.out.println("committed " + next.entrySet().stream()
            .map(each -> each.getKey().partition() + ":" + each.getValue().offset())
            .collect(Collectors.joining(" ")));
    }

    private static void waitForTheEnd(AtomicBoolean ends) {
        try {
            while (System.in.read() >= 0) {
                // Nothing is asked: the end alone counts.
            }
        } catch (java.io.IOException gone) {
            // The parent is gone.
        }
        ends.set(true);
    }

    /** Prints what it is told. */
    private static final class Told implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            System.out.println("assigned");
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            // Nothing is to be done: the group has no other member.
        }
    }
}

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a group, until standard input ends: BOOTSTRAP GROUP TOPIC ASSIGNOR SESSION_TIMEOUT_MS.
 * Where the assignor is "consumer", the group is of that protocol, and the broker says what time-outs there are.
 *
 * Prints a line whenever something happens: assigned, revoked, lost or owns with partition numbers, each
 * after "at NANOSECONDS" of System.nanoTime, and "record PARTITION OFFSET VALUE"; at last "closed".
 */
public final class Member {
    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("group.id", args[1]);
        if (args[3].equals("consumer")) {
            properties.put("group.protocol", "consumer");
        } else {
            properties.put("partition.assignment.strategy", args[3]);
            properties.put("session.timeout.ms", args[4]);
            properties.put("heartbeat.interval.ms", Integer.toString(Integer.parseInt(args[4]) / 4));
        }
        properties.put("auto.offset.reset", "earliest");
        AtomicBoolean ends = new AtomicBoolean();
        Thread watch = new Thread(() -> waitForTheEnd(ends));
        watch.setDaemon(true);
        watch.start();
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(args[2]), new Told());
            Set<TopicPartition> shown = Set.of();
            while (!ends.get()) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(50))) {
                    System.out.println("record " + record.partition() + " " + record.offset() + " " + record.value());
                }
                if (!consumer.assignment().equals(shown)) {
                    shown = Set.copyOf(consumer.assignment());
                    print("owns", shown);
                }
                System.out.flush();
            }
        }
        System.out.println("closed");
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

    private static void print(String what, Collection<TopicPartition> partitions) {
        System.out.println("at " + System.nanoTime());
        System.out.println(what + partitions.stream().map(TopicPartition::partition)
            .collect(Collectors.toCollection(TreeSet::new)).stream()
            .map(each -> " " + each).collect(Collectors.joining()));
    }

    /** Prints what it is told. */
    private static final class Told implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            print("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            print("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            print("lost", partitions);
        }
    }
}

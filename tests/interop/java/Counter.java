import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Counts, a number a transaction, to two partitions and as a group's offset; or reads a partition's committed
 * records and prints them. Killed by who runs it.
 *
 *     Counter count BOOTSTRAP TOPIC GROUP TRANSACTIONAL_ID
 *     Counter read BOOTSTRAP TOPIC PARTITION
 */
public final class Counter {
    private static final int ABORTED_ONE_IN = 5;
    private static final Duration OPERATION_TIMEOUT = Duration.ofSeconds(10);

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("read")) {
            read(arguments[1], new TopicPartition(arguments[2], Integer.parseInt(arguments[3])));
            return;
        }
        while (true) {
            try {
                count(arguments[1], arguments[2], arguments[3], arguments[4]);
            } catch (KafkaException refused) {
                Thread.sleep(50);
            }
        }
    }

    private static void count(String bootstrap, String topic, String group, String transactionalId) {
        Map<String, Object> ofConsumer = settings(bootstrap);
        ofConsumer.put("group.id", group);
        ofConsumer.put("enable.auto.commit", "false");
        Map<String, Object> ofProducer = settings(bootstrap);
        ofProducer.put("transactional.id", transactionalId);
        ofProducer.put("linger.ms", "0");
        ofProducer.put("transaction.timeout.ms", "20000");
        ofProducer.put("max.block.ms", String.valueOf(OPERATION_TIMEOUT.toMillis()));
        KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(ofConsumer, new StringDeserializer(), new StringDeserializer());
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(ofProducer, new StringSerializer(), new StringSerializer());
        try {
            producer.initTransactions();
            TopicPartition place = new TopicPartition(topic, 0);
            OffsetAndMetadata committed = consumer.committed(Set.of(place), OPERATION_TIMEOUT).get(place);
            long number = committed == null ? 0 : committed.offset();
            for (int turn = 0; ; turn++) {
                boolean isAborted = turn % ABORTED_ONE_IN == ABORTED_ONE_IN - 1;
                producer.beginTransaction();
                for (int index = 0; index < 2; index++) {
                    producer.send(new ProducerRecord<>(topic, index, null, isAborted ? "never" : "" + number));
                }
                long next = isAborted ? number + 1000 : number + 1;
                producer.sendOffsetsToTransaction(
                        Map.of(place, new OffsetAndMetadata(next)), consumer.groupMetadata());
                if (isAborted) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                    number++;
                }
            }
        } finally {
            producer.close(Duration.ZERO);
            consumer.close();
        }
    }

    private static void read(String bootstrap, TopicPartition place) {
        Map<String, Object> settings = settings(bootstrap);
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "none");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(place));
            consumer.seek(place, 0);
            while (true) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(100))) {
                    System.out.println(each.value());
                }
                System.out.flush();
            }
        }
    }

    private static Map<String, Object> settings(String bootstrap) {
        return new HashMap<>(Map.of(
                "bootstrap.servers", bootstrap, "reconnect.backoff.ms", "10", "reconnect.backoff.max.ms", "100"));
    }
}

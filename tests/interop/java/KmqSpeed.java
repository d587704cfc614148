import com.softwaremill.kmq.KafkaClients;
import com.softwaremill.kmq.KmqClient;
import com.softwaremill.kmq.KmqConfig;
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * How fast SoftwareMill's client takes and ends records, or Java's consumer reads them: kmq|plain BOOTSTRAP TOPIC RECORDS.
 *
 * Prints seconds by the clock, seconds of CPU, and records, from behind the first tenth of them: until then code is
 * compiled.
 */
public final class KmqSpeed {
    private static long count, first, beganNs, beganCpuNs;

    public static void main(String[] args) throws Exception {
        long records = Long.parseLong(args[3]);
        if (args[0].equals("kmq")) {
            acknowledge(args[1], args[2], records);
        } else {
            consume(args[1], args[2], records);
        }
        System.out.println((System.nanoTime() - beganNs) / 1e9 + " " + (cpuNs() - beganCpuNs) / 1e9 + " " + (count - first));
        System.exit(0);
    }

    private static void consume(String bootstrap, String topic, long records) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "group.id", "plain-" + topic,
            "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (count < records) {
                ConsumerRecords<byte[], byte[]> batch = consumer.poll(Duration.ofSeconds(1));
                consumer.commitSync();
                seen(batch.count(), records);
            }
        }
    }

    private static void acknowledge(String bootstrap, String topic, long records) throws Exception {
        KmqConfig config = new KmqConfig(
            topic, topic + "__markers", "kmq-" + topic, "kmq-" + topic + "-redelivery", 90_000, 1_000);
        try (KmqClient<byte[], byte[]> client = new KmqClient<>(
                config, new KafkaClients(bootstrap), ByteArrayDeserializer.class, ByteArrayDeserializer.class, 1_000)) {
            while (count < records) {
                long taken = 0;
                for (ConsumerRecord<byte[], byte[]> record : client.nextBatch()) {
                    client.processed(record);
                    taken++;
                }
                seen(taken, records);
            }
        }
    }

    private static void seen(long taken, long records) {
        count += taken;
        if (beganNs == 0 && count >= records / 10) {
            beganNs = System.nanoTime();
            beganCpuNs = cpuNs();
            first = count;
        }
    }

    private static long cpuNs() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}

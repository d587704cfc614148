import com.softwaremill.kmq.KafkaClients;
import com.softwaremill.kmq.KmqClient;
import com.softwaremill.kmq.KmqConfig;
import com.softwaremill.kmq.RedeliveryTracker;
import java.io.Closeable;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * SoftwareMill's client or tracker, until standard input ends: client|tracker BOOTSTRAP TOPIC TIMEOUT_MS.
 *
 * The client prints "given PARTITION OFFSET REDELIVERIES VALUE" for each record, the third number by the header that
 * this version does not know yet. It ends the record, unless its value begins with "never", or with "once" where
 * it is the first delivery.
 */
public final class Kmq {
    public static void main(String[] args) throws Exception {
        String topic = args[2];
        KmqConfig config = new KmqConfig(
            topic, topic + "__markers", "kmq-" + topic, "kmq-" + topic + "-redelivery", Long.parseLong(args[3]), 200);
        KafkaClients clients = new KafkaClients(args[1]);
        AtomicBoolean ends = new AtomicBoolean();
        Thread watch = new Thread(() -> waitForTheEnd(ends));
        watch.setDaemon(true);
        watch.start();
        if (args[0].equals("tracker")) {
            Closeable tracker = RedeliveryTracker.start(clients, config);
            System.out.println("tracking");
            while (!ends.get()) {
                Thread.sleep(50);
            }
            tracker.close();
        } else {
            work(clients, config, ends);
        }
        System.exit(0);
    }

    private static void work(KafkaClients clients, KmqConfig config, AtomicBoolean ends) throws Exception {
        try (KmqClient<String, String> client = new KmqClient<>(
                config, clients, StringDeserializer.class, StringDeserializer.class, 100)) {
            while (!ends.get()) {
                for (ConsumerRecord<String, String> record : client.nextBatch()) {
                    Header count = record.headers().lastHeader("kmq-redelivery-count");
                    int redeliveries = count == null ? 0 : count.value()[0];
                    System.out.println("given " + record.partition() + " " + record.offset() + " "
                        + redeliveries + " " + record.value());
                    boolean isFirst = redeliveries == 0;
                    if (!record.value().startsWith("never") && !(isFirst && record.value().startsWith("once"))) {
                        client.processed(record);
                    }
                }
            }
        }
    }

    private static void waitForTheEnd(AtomicBoolean ends) {
        try {
            while (System.in.read() >= 0) {
                // Nothing is asked: the end alone counts.
            }
        } catch (java.io.IOException error) {
            System.err.println(error);
        }
        ends.set(true);
    }
}

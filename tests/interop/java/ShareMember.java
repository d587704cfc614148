import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group, until standard input ends: BOOTSTRAP GROUP TOPIC implicit|explicit [NAME=VALUE ...].
 *
 * Prints "record PARTITION OFFSET DELIVERIES VALUE" for each record, "acknowledged COUNT" and "failed ERROR" as
 * it hears of acknowledgements, and "closed" at last. In explicit mode a value tells what becomes of it: one that
 * begins with "release" is released at its first delivery, "reject" is rejected, "renew" is renewed once before
 * it is accepted; all others are accepted.
 */
public final class ShareMember {
    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("group.id", args[1]);
        boolean explicit = args[3].equals("explicit");
        properties.put("share.acknowledgement.mode", args[3]);
        for (int each = 4; each < args.length; each++) {
            String[] setting = args[each].split("=", 2);
            properties.put(setting[0], setting[1]);
        }
        AtomicBoolean ends = new AtomicBoolean();
        Thread watch = new Thread(() -> waitForTheEnd(ends));
        watch.setDaemon(true);
        watch.start();
        Set<String> renewed = new HashSet<>();
        try (KafkaShareConsumer<String, String> consumer =
                 new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.setAcknowledgementCommitCallback((offsets, error) -> {
                int count = offsets.values().stream().mapToInt(Set::size).sum();
                System.out.println(error == null ? "acknowledged " + count : "failed " + error);
            });
            consumer.subscribe(List.of(args[2]));
            System.out.println("subscribed");
            while (!ends.get()) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    System.out.println("record " + record.partition() + " " + record.offset() + " "
                        + record.deliveryCount().orElse((short) 0) + " " + record.value());
                    if (explicit) {
                        acknowledge(consumer, record, renewed);
                    }
                }
                System.out.flush();
            }
        }
        System.out.println("closed");
    }

    private static void acknowledge(
        KafkaShareConsumer<String, String> consumer, ConsumerRecord<String, String> record, Set<String> renewed
    ) {
        String value = record.value();
        AcknowledgeType type = AcknowledgeType.ACCEPT;
        if (value.startsWith("release") && record.deliveryCount().orElse((short) 1) < 2) {
            type = AcknowledgeType.RELEASE;
        } else if (value.startsWith("reject")) {
            type = AcknowledgeType.REJECT;
        } else if (value.startsWith("renew") && renewed.add(value)) {
            type = AcknowledgeType.RENEW;
        }
        consumer.acknowledge(record, type);
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

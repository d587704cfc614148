import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a group that does what standard input says: topics|pattern SUBSCRIPTION [NAME=VALUE ...].
 * The subscription is topics with commas between them, or a regular expression.
 *
 * It prints "ready" once it has its consumer, and joins when it is told "join".
 *
 * "stall SECONDS": work for so long without a poll. "subscribe TOPIC...". "rewind": read again from the beginning.
 * "close", or the end of the input: leave the group. A record "poison" ends the process at once, with what came
 * before it committed.
 */
public final class CommandedMember {
    private static final String POISON = "poison";
    private static final Duration POLL = Duration.ofMillis(200);

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        for (String each : Arrays.asList(args).subList(2, args.length)) {
            String[] setting = each.split("=", 2);
            properties.put(setting[0], setting[1]);
        }
        LinkedBlockingQueue<String> commands = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(commands));
        reader.setDaemon(true);
        reader.start();
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            System.out.println("ready");
            if (!commands.take().equals("join")) {
                return;
            }
            if (args[0].equals("pattern")) {
                consumer.subscribe(Pattern.compile(args[1]));
            } else {
                consumer.subscribe(Arrays.asList(args[1].split(",")));
            }
            while (true) {
                for (String next = commands.poll(); next != null; next = commands.poll()) {
                    List<String> words = Arrays.asList(next.split(" "));
                    if (words.get(0).equals("close")) {
                        return;
                    }
                    obey(consumer, words);
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                    stopAtPoison(consumer, record);
                }
            }
        }
    }

    private static void obey(KafkaConsumer<byte[], byte[]> consumer, List<String> words) throws InterruptedException {
        switch (words.get(0)) {
            case "stall" -> Thread.sleep(Math.round(Double.parseDouble(words.get(1)) * 1000));
            case "subscribe" -> consumer.subscribe(words.subList(1, words.size()));
            case "rewind" -> {
                Map<TopicPartition, OffsetAndMetadata> first = new HashMap<>();
                consumer.seekToBeginning(consumer.assignment());
                consumer.assignment().forEach(each -> first.put(each, new OffsetAndMetadata(consumer.position(each))));
                consumer.commitSync(first);
            }
            default -> throw new IllegalArgumentException(words.toString());
        }
    }

    private static void stopAtPoison(KafkaConsumer<byte[], byte[]> consumer, ConsumerRecord<byte[], byte[]> record) {
        if (POISON.equals(new String(record.value(), StandardCharsets.UTF_8))) {
            TopicPartition place = new TopicPartition(record.topic(), record.partition());
            consumer.commitSync(Map.of(place, new OffsetAndMetadata(record.offset())));
            Runtime.getRuntime().halt(1);
        }
    }

    private static void read(LinkedBlockingQueue<String> commands) {
        try (Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8)) {
            while (lines.hasNextLine()) {
                commands.add(lines.nextLine().strip());
            }
        }
        commands.add("close");
    }
}

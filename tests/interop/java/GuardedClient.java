import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.auth.SaslExtensionsCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes to a topic and reads it again, with a file's settings, for each line "TOPIC COUNT FILE" on standard input.
 *
 * Prints "read VALUE,VALUE,..." or "refused EXCEPTION: MESSAGE", a line for each.
 */
public final class GuardedClient {
    private static final Duration PATIENCE = Duration.ofSeconds(15);

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", 3);
            System.out.println(tried(words[0], Integer.parseInt(words[1]), Path.of(words[2])));
            System.out.flush();
        }
    }

    private static String tried(String topic, int count, Path file) {
        try {
            Properties properties = new Properties();
            try (Reader reader = Files.newBufferedReader(file)) {
                properties.load(reader);
            }
            write(properties, topic, count);
            return "read " + String.join(",", read(properties, topic, count));
        } catch (Exception error) {
            Throwable cause = error;
            while (cause.getCause() != null && !(cause instanceof org.apache.kafka.common.KafkaException)) {
                cause = cause.getCause();
            }
            return ("refused " + cause).replace('\n', ' ');
        }
    }

    private static void write(Properties given, String topic, int count) throws Exception {
        Properties properties = new Properties();
        properties.putAll(given);
        properties.put("max.block.ms", "8000");
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < count; number++) {
                producer.send(new ProducerRecord<>(topic, 0, null, Integer.toString(number))).get();
            }
        }
    }

    private static List<String> read(Properties given, String topic, int count) {
        Properties properties = new Properties();
        properties.putAll(given);
        properties.put("enable.auto.commit", "false");
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (found.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    found.add(record.value());
                }
            }
        }
        return found;
    }

    /** Shows the token that the login module's option "token" has. */
    public static final class Login implements AuthenticateCallbackHandler {
        private String token = "";

        @Override
        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
            token = (String) entries.get(0).getOptions().get("token");
        }

        @Override
        public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
            for (Callback each : callbacks) {
                if (each instanceof OAuthBearerTokenCallback asked) {
                    asked.token(new Shown(token));
                } else if (!(each instanceof SaslExtensionsCallback)) {
                    throw new UnsupportedCallbackException(each);
                }
            }
        }

        @Override
        public void close() {}
    }

    private record Shown(String value) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return System.currentTimeMillis() + 300_000;
        }

        @Override
        public String principalName() {
            return "alice";
        }

        @Override
        public Long startTimeMs() {
            return System.currentTimeMillis();
        }
    }
}

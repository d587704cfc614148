import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;

/**
 * An application of Kafka Streams in a streams group (KIP-1071), exactly once. Killed by who runs it, or told to
 * close by a line on its standard input. Prints each state that it comes to.
 *
 *     StreamsApplication BOOTSTRAP GROUP STATE_FOLDER count LINES COUNTS [NAME=VALUE ...]
 *     StreamsApplication BOOTSTRAP GROUP STATE_FOLDER join ORDERS USERS JOINED [NAME=VALUE ...]
 *
 * `count` counts the words of lines. `join` has orders, whose values are users, find the user's city.
 */
public final class StreamsApplication {
    public static void main(String[] arguments) throws Exception {
        boolean joins = arguments[3].equals("join");
        int topics = joins ? 3 : 2;
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "100");
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");  // Every result is written.
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put("auto.offset.reset", "earliest");
        for (String setting : Arrays.copyOfRange(arguments, 4 + topics, arguments.length)) {
            int equals = setting.indexOf('=');
            settings.put(setting.substring(0, equals), setting.substring(equals + 1));
        }
        Topology topology = joins
                ? join(arguments[4], arguments[5], arguments[6])
                : count(arguments[4], arguments[5]);
        KafkaStreams streams = new KafkaStreams(topology, settings);
        CountDownLatch closed = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            System.out.println(now);
            System.out.flush();
            if (now == KafkaStreams.State.NOT_RUNNING || now == KafkaStreams.State.ERROR) {
                closed.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse
                    .SHUTDOWN_CLIENT;
        });
        streams.start();
        Thread listener = new Thread(() -> {
            try {
                if (System.in.read() >= 0) {
                    streams.close();
                }
            } catch (java.io.IOException gone) {
                streams.close();
            }
        });
        listener.setDaemon(true);
        listener.start();
        closed.await();
    }

    private static Topology count(String lines, String counts) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(lines)
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word)
                .count()
                .toStream()
                .mapValues(String::valueOf)
                .to(counts, org.apache.kafka.streams.kstream.Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    private static Topology join(String orders, String users, String joined) {
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, String> cities = builder.table(users);
        KStream<String, String> byOrder = builder.stream(orders);
        byOrder.map((order, user) -> org.apache.kafka.streams.KeyValue.pair(user, order))
                .join(cities, (order, city) -> order + " " + city)
                .to(joined);
        return builder.build();
    }
}

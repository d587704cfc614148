import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactional producers and readers of committed records, Kafka's own, and what they see: NAME=VALUE lines. */
public final class Transactions {
    private static final TopicPartition FIRST = new TopicPartition("java-out", 0);
    private static final TopicPartition SECOND = new TopicPartition("java-out", 1);
    private static final TopicPartition IN = new TopicPartition("java-in", 0);
    private static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic("java-out", 2, (short) 1), new NewTopic("java-in", 1, (short) 1)))
                    .all()
                    .get();
            say("transaction.version", admin.describeFeatures().featureMetadata().get()
                    .finalizedFeatures().get("transaction.version").maxVersionLevel());
            KafkaProducer<String, String> producer = producer("java-one");
            for (int number = 0; number < 10; number++) {
                producer.beginTransaction();
                for (TopicPartition each : List.of(FIRST, SECOND)) {
                    for (int copy = 0; copy < 3; copy++) {
                        producer.send(new ProducerRecord<>(each.topic(), each.partition(), null, number + "." + copy));
                    }
                }
                producer.flush();
                if (number == 4) {
                    describe(admin);
                }
                if (number % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
            producer.beginTransaction();
            producer.abortTransaction();
            say("committed first", read(FIRST, "read_committed"));
            say("committed second", read(SECOND, "read_committed"));
            say("uncommitted first", read(FIRST, "read_uncommitted").size());
            offsets(producer, admin);
            fenced(producer);
        }
    }

    private static void describe(Admin admin) throws Exception {
        TransactionDescription description =
                admin.describeTransactions(Set.of("java-one")).description("java-one").get();
        say("state", description.state());
        say("partitions", description.topicPartitions().size());
        for (String pattern : List.of("java-.*", "nobody-.*")) {
            ListTransactionsOptions options = new ListTransactionsOptions().filterOnTransactionalIdPattern(pattern);
            say(pattern, admin.listTransactions(options).all().get().size());
        }
        say("open producers", admin.describeProducers(List.of(FIRST)).partitionResult(FIRST).get()
                .activeProducers().stream().filter(each -> each.currentTransactionStartOffset().isPresent()).count());
    }

    private static void offsets(KafkaProducer<String, String> producer, Admin admin) throws Exception {
        producer.beginTransaction();
        for (int number = 0; number < 5; number++) {
            producer.send(new ProducerRecord<>("java-in", 0, null, "in" + number));
        }
        producer.commitTransaction();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(Map.of(
                "bootstrap.servers", bootstrap, "group.id", "java-group", "isolation.level", "read_committed",
                "auto.offset.reset", "earliest", "enable.auto.commit", "false"),
                new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("java-in"));
            int seen = 0;
            while (seen < 5) {
                seen += consumer.poll(Duration.ofSeconds(1)).count();
            }
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(IN, new OffsetAndMetadata(3)), consumer.groupMetadata());
            producer.commitTransaction();
            say("group's offset", consumer.committed(Set.of(IN)).get(IN).offset());
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("java-in", 0, null, "never"));
            producer.sendOffsetsToTransaction(Map.of(IN, new OffsetAndMetadata(5)), consumer.groupMetadata());
            producer.abortTransaction();
            say("group's offset after abort", consumer.committed(Set.of(IN)).get(IN).offset());
        }
        say("in", read(IN, "read_committed"));
    }

    private static void fenced(KafkaProducer<String, String> old) {
        old.beginTransaction();
        old.send(new ProducerRecord<>("java-out", 0, null, "of the fenced one"));
        old.flush();
        KafkaProducer<String, String> newer = producer("java-one");
        try {
            old.commitTransaction();
            say("fenced", "no");
        } catch (KafkaException refused) {
            say("fenced", refused.getClass().getSimpleName());
        }
        newer.beginTransaction();
        newer.send(new ProducerRecord<>("java-out", 0, null, "of the newer one"));
        newer.commitTransaction();
        List<String> all = read(FIRST, "read_committed");
        say("last", all.get(all.size() - 1));
        say("all", all.size());
        newer.close();
        old.close(Duration.ZERO);
    }

    private static KafkaProducer<String, String> producer(String transactionalId) {
        KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap, "transactional.id", transactionalId, "linger.ms", "1",
                        "max.block.ms", String.valueOf(TimeUnit.SECONDS.toMillis(20))),
                new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    private static List<String> read(TopicPartition partition, String level) {
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
                Map.of("bootstrap.servers", bootstrap, "isolation.level", level),
                new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(200))) {
                    values.add(each.value());
                }
            }
        }
        return values;
    }

    private static void say(String name, Object value) {
        System.out.println(name + "=" + value);
    }
}

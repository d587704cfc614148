import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Uses the Java clients with their default settings against BOOTSTRAP; prints NAME=VALUE lines. */
public final class Clients {
    private static final String TOPIC = "java-flights";
    private static final String GROUP = "java-group";
    private static final int PARTITIONS = 4;
    private static final int RECORDS = 400;

    private final String bootstrap;

    private Clients(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        Clients clients = new Clients(arguments[0]);
        Properties properties = clients.common();
        try (Admin admin = Admin.create(properties)) {
            clients.createTopic(admin);
            clients.produce();
            clients.consumeInAGroup(admin);
            clients.administer(admin);
        }
    }

    private static void print(String name, Object value) {
        System.out.println(name + "=" + value);
    }

    private Properties common() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        return properties;
    }

    private void createTopic(Admin admin) throws Exception {
        NewTopic topic = new NewTopic(TOPIC, PARTITIONS, (short) 1).configs(Map.of("retention.ms", "3600000"));
        admin.createTopics(List.of(topic)).all().get();
        print("partitions", admin.describeTopics(List.of(TOPIC)).allTopicNames().get().get(TOPIC)
            .partitions().size());
    }

    private void produce() throws Exception {
        for (String compression : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            Properties properties = common();
            properties.put("compression.type", compression);
            List<java.util.concurrent.Future<RecordMetadata>> answers = new ArrayList<>();
            try (KafkaProducer<String, String> producer =
                     new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
                for (int index = 0; index < RECORDS / 5; index++) {
                    ProducerRecord<String, String> record =
                        new ProducerRecord<>(TOPIC, index % PARTITIONS, "key-" + index, compression + "-" + index);
                    record.headers().add("codec", compression.getBytes());
                    answers.add(producer.send(record));
                }
            }
            long last = answers.get(answers.size() - 1).get().offset();
            print("last offset " + compression, last);
        }
    }

    private KafkaConsumer<String, String> consumer() {
        Properties properties = common();
        properties.put(ConsumerConfig.GROUP_ID_CONFIG, GROUP);
        properties.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        properties.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        properties.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, "500");
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    private void consumeInAGroup(Admin admin) throws Exception {
        TreeSet<String> read = new TreeSet<>();
        int[] count = {0};
        KafkaConsumer<String, String> first = consumer();
        KafkaConsumer<String, String> second = consumer();
        List<KafkaConsumer<String, String>> both = List.of(first, second);
        first.subscribe(List.of(TOPIC));
        pollUntil(List.of(first), read, count,
            () -> first.assignment().size() == PARTITIONS && read.size() == RECORDS);
        first.commitSync();
        print("alone", first.assignment().size());
        second.subscribe(List.of(TOPIC));
        pollUntil(both, read, count,
            () -> first.assignment().size() == 2 && second.assignment().size() == 2);
        print("shared", first.assignment().size() + "+" + second.assignment().size());
        print("records", count[0]);
        print("state", admin.describeConsumerGroups(List.of(GROUP)).all().get().get(GROUP).groupState());
        print("members", admin.describeConsumerGroups(List.of(GROUP)).all().get().get(GROUP).members().size());
        first.close();
        pollUntil(List.of(second), read, count, () -> second.assignment().size() == PARTITIONS);
        print("after leave", second.assignment().size());
        print("committed", offsets(admin));
        TopicPartition zero = new TopicPartition(TOPIC, 0);
        second.seek(zero, 95);
        int[] again = {0};
        pollUntil(List.of(second), new TreeSet<>(), again, () -> again[0] == 5);
        print("read again after seek", again[0]);
        print("by time", second.offsetsForTimes(Map.of(zero, 0L)).get(zero).offset());
        print("end", second.endOffsets(Set.of(zero)).get(zero));
        second.commitSync(Map.of(zero, new OffsetAndMetadata(42, "a note")));
        print("metadata", second.committed(Set.of(zero)).get(zero).metadata());
        second.close();
    }

    private static void pollUntil(Collection<KafkaConsumer<String, String>> consumers, Set<String> read,
                                  int[] count, BooleanSupplier condition) {
        long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("not in time; read " + read.size());
            }
            for (KafkaConsumer<String, String> consumer : consumers) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(50))) {
                    String codec = new String(record.headers().lastHeader("codec").value());
                    if (!record.value().startsWith(codec)) {
                        throw new IllegalStateException(record.toString());
                    }
                    read.add(record.value());
                    count[0]++;
                }
            }
        }
    }

    private Map<String, Long> offsets(Admin admin) throws Exception {
        Map<String, Long> found = new TreeMap<>();
        admin.listConsumerGroupOffsets(GROUP).partitionsToOffsetAndMetadata().get()
            .forEach((partition, offset) -> found.put(partition.toString(), offset.offset()));
        return found;
    }

    private void administer(Admin admin) throws Exception {
        print("cluster nodes", admin.describeCluster().nodes().get().size());
        admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(6))).all().get();
        print("grown", admin.describeTopics(List.of(TOPIC)).allTopicNames().get().get(TOPIC).partitions().size());
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
        AlterConfigOp change =
            new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
        print("cleanup.policy",
            admin.describeConfigs(List.of(resource)).all().get().get(resource).get("cleanup.policy").value());
        TopicPartition one = new TopicPartition(TOPIC, 1);
        admin.deleteRecords(Map.of(one, RecordsToDelete.beforeOffset(10))).all().get();
        ListOffsetsResult.ListOffsetsResultInfo earliest =
            admin.listOffsets(Map.of(one, OffsetSpec.earliest())).all().get().get(one);
        print("earliest after delete", earliest.offset());
        print("max timestamp offset is known",
            admin.listOffsets(Map.of(one, OffsetSpec.maxTimestamp())).all().get().get(one).offset() >= 0);
        admin.alterConsumerGroupOffsets(GROUP, Map.of(one, new OffsetAndMetadata(77))).all().get();
        print("altered", offsets(admin).get(one.toString()));
        admin.deleteConsumerGroupOffsets(GROUP, Set.of(one)).all().get();
        print("offset deleted", !offsets(admin).containsKey(one.toString()));
        print("groups", admin.listGroups().all().get().stream().filter(each -> each.groupId().equals(GROUP)).count());
        print("log folders", admin.describeLogDirs(List.of(admin.describeCluster().controller().get().id()))
            .allDescriptions().get().values().iterator().next().size());
        print("producers", admin.describeProducers(List.of(one)).all().get().get(one).activeProducers().size() > 0);
        admin.deleteConsumerGroups(List.of(GROUP)).all().get();
        admin.deleteTopics(List.of(TOPIC)).all().get();
        print("topic deleted", !admin.listTopics().names().get().contains(TOPIC));
    }
}

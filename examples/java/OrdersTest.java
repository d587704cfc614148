import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's own clients on a broker of its own: javac -cp 'jars/*' *.java && java -cp 'jars/*:.' OrdersTest. */
public final class OrdersTest {
    private static final TopicPartition ORDERS = new TopicPartition("orders", 0);

    public static void main(String[] arguments) throws Exception {
        try (Broker broker = new Broker()) {
            broker.post("/topics", "{\"name\": \"orders\", \"partitions\": 1}");
            anOrderIsSentAgainWhenItsAnswerIsTorn(broker);
            aCommitThatIsRefusedIsToldToTheCaller(broker);
        }
        System.out.println("2 tests passed");
    }

    private static void anOrderIsSentAgainWhenItsAnswerIsTorn(Broker broker) throws Exception {
        broker.post("/faults", "{\"api\": \"Produce\", \"action\": \"tear\"}");
        Map<String, Object> settings = Map.of("bootstrap.servers", broker.kafka);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", "two pizzas")).get();
        }
        broker.post("/expect/records", "{\"topic\": \"orders\", \"values\": [\"two pizzas\"]}");
    }

    private static void aCommitThatIsRefusedIsToldToTheCaller(Broker broker) throws Exception {
        broker.post("/faults", "{\"api\": \"OffsetCommit\", \"error\": \"GROUP_AUTHORIZATION_FAILED\"}");
        Map<String, Object> settings = Map.of("bootstrap.servers", broker.kafka, "group.id", "kitchen");
        Map<TopicPartition, OffsetAndMetadata> read = Map.of(ORDERS, new OffsetAndMetadata(1));
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(ORDERS));
            try {
                consumer.commitSync(read);
                throw new AssertionError("the commit was accepted");
            } catch (GroupAuthorizationException expected) {
                consumer.commitSync(read);
            }
        }
        broker.post("/expect/commit", "{\"group\": \"kitchen\", \"topic\": \"orders\", \"offset\": 1}");
    }
}

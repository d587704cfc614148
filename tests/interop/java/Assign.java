import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Prints what Kafka's own assignors make of cases read from standard input, a line each, fields parted by tabs:
 *
 *   topic   NAME  RACKS OF PARTITION 0;RACKS OF PARTITION 1;...   (racks parted by commas, - for none)
 *   member  ID  INSTANCE  RACK  GENERATION  TOPICS  OWNED  USER DATA   (- for none; topics parted by commas;
 *           owned as topic:0,1;topic:2; user data in hexadecimal digits)
 *   assign  ASSIGNOR   prints a line per member: ID, a tab, partitions as topic:0,1;topic:2; then an empty line;
 *           where the assignor throws, a line with the word failed, a tab, and what it threw
 *   end     forgets topics and members
 */
public final class Assign {
    private static Map<String, List<PartitionInfo>> topics = new HashMap<>();
    private static Map<String, Node> nodes = new HashMap<>();
    private static Map<String, Subscription> members = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\t", -1);
            switch (fields[0]) {
                case "topic" -> topics.put(fields[1], partitions(fields[1], fields[2]));
                case "member" -> members.put(fields[1], subscription(fields));
                case "assign" -> tryAssign(out, fields[1]);
                default -> forget();
            }
        }
        out.flush();
    }

    private static List<PartitionInfo> partitions(String topic, String racks) {
        List<PartitionInfo> found = new ArrayList<>();
        for (String each : racks.split(";")) {
            Node[] replicas = each.equals("-")
                ? new Node[] {node("")}
                : List.of(each.split(",")).stream().map(Assign::node).toArray(Node[]::new);
            found.add(new PartitionInfo(topic, found.size(), replicas[0], replicas, replicas));
        }
        return found;
    }

    private static Node node(String rack) {
        return nodes.computeIfAbsent(rack, each -> new Node(nodes.size(), "h", 9092, each.isEmpty() ? null : each));
    }

    private static Subscription subscription(String[] fields) {
        List<String> wanted = fields[5].equals("-") ? List.of() : List.of(fields[5].split(","));
        ByteBuffer userData = fields[7].equals("-") ? null : ByteBuffer.wrap(HexFormat.of().parseHex(fields[7]));
        Optional<String> rack = fields[3].equals("-") ? Optional.empty() : Optional.of(fields[3]);
        int generation = Integer.parseInt(fields[4]);
        Subscription found = new Subscription(wanted, userData, owned(fields[6]), generation, rack);
        found.setGroupInstanceId(fields[2].equals("-") ? Optional.empty() : Optional.of(fields[2]));
        return found;
    }

    private static List<TopicPartition> owned(String field) {
        List<TopicPartition> found = new ArrayList<>();
        for (String each : field.equals("-") ? new String[0] : field.split(";")) {
            String[] parts = each.split(":");
            for (String partition : parts[1].split(","))
                found.add(new TopicPartition(parts[0], Integer.parseInt(partition)));
        }
        return found;
    }

    private static void tryAssign(PrintStream out, String name) {
        try {
            print(out, assign(name));
        } catch (RuntimeException error) {
            out.println("failed\t" + error.getClass().getSimpleName() + "\n");
        }
    }

    private static Map<String, List<TopicPartition>> assign(String name) {
        ConsumerPartitionAssignor assignor = switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
        List<PartitionInfo> partitions = topics.values().stream().flatMap(List::stream).toList();
        Cluster cluster = new Cluster("c", nodes.values(), partitions, Set.of(), Set.of());
        Map<String, List<TopicPartition>> found = new TreeMap<>();
        assignor.assign(cluster, new GroupSubscription(members)).groupAssignment()
            .forEach((member, assignment) -> found.put(member, assignment.partitions()));
        return found;
    }

    private static void print(PrintStream out, Map<String, List<TopicPartition>> assignment) {
        assignment.forEach((member, partitions) -> {
            Map<String, TreeSet<Integer>> byTopic = new TreeMap<>();
            partitions.forEach(each -> byTopic.computeIfAbsent(each.topic(), t -> new TreeSet<>()).add(each.partition()));
            List<String> parts = new ArrayList<>();
            byTopic.forEach((topic, numbers) ->
                parts.add(topic + ":" + String.join(",", numbers.stream().map(String::valueOf).toList())));
            out.println(member + "\t" + String.join(";", parts));
        });
        out.println();
    }

    private static void forget() {
        topics = new HashMap<>();
        nodes = new HashMap<>();
        members = new HashMap<>(); // A new one: a table that was cleared keeps its size, and so its order.
    }
}

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.springframework.cloud.stream.schema.registry.SchemaReference;
import org.springframework.cloud.stream.schema.registry.SchemaRegistrationResponse;
import org.springframework.cloud.stream.schema.registry.client.ConfluentSchemaRegistryClient;
import org.springframework.web.client.RestTemplate;

/**
 * Asks a schema registry by Spring's client: Registry URL. Each line of standard input is a command with words between
 * tabs, and each answer is a line: "error CLASS" where the client has thrown.
 *
 * <pre>
 * register SUBJECT SCHEMA    the id and the version
 * id ID                      the schema
 * version SUBJECT VERSION    the schema
 * encode ID NAME             a record with this name, as Confluent's serializers write it, in hex
 * decode HEX                 the name of such a record
 * </pre>
 */
public final class Registry {
    private static final String FORMAT = "avro";
    private static final int HEADER_BYTES = 5;

    public static void main(String[] arguments) throws IOException {
        ConfluentSchemaRegistryClient client = new ConfluentSchemaRegistryClient(new RestTemplate());
        client.setEndpoint(arguments[0]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(answer(client, line.split("\t")));
            System.out.flush();
        }
    }

    private static String answer(ConfluentSchemaRegistryClient client, String[] words) throws IOException {
        try {
            switch (words[0]) {
                case "register":
                    SchemaRegistrationResponse made = client.register(words[1], FORMAT, words[2]);
                    return made.getId() + " " + made.getSchemaReference().getVersion();
                case "id":
                    return client.fetch(Integer.parseInt(words[1]));
                case "version":
                    return client.fetch(new SchemaReference(words[1], Integer.parseInt(words[2]), FORMAT));
                case "encode":
                    return encode(client, Integer.parseInt(words[1]), words[2]);
                case "decode":
                    return decode(client, HexFormat.of().parseHex(words[1]));
                default:
                    throw new IllegalArgumentException(words[0]);
            }
        } catch (RuntimeException error) {
            return "error " + error.getClass().getSimpleName();
        }
    }

    private static String encode(ConfluentSchemaRegistryClient client, int id, String name) throws IOException {
        Schema schema = new Schema.Parser().parse(client.fetch(id));
        GenericRecord user = new GenericData.Record(schema);
        user.put("name", name);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        bytes.write(ByteBuffer.allocate(HEADER_BYTES).put((byte) 0).putInt(id).array());
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(bytes, null);
        new GenericDatumWriter<GenericRecord>(schema).write(user, encoder);
        encoder.flush();
        return HexFormat.of().formatHex(bytes.toByteArray());
    }

    private static String decode(ConfluentSchemaRegistryClient client, byte[] bytes) throws IOException {
        Schema schema = new Schema.Parser().parse(client.fetch(ByteBuffer.wrap(bytes).getInt(1)));
        GenericRecord user = new GenericDatumReader<GenericRecord>(schema).read(
            null, DecoderFactory.get().binaryDecoder(bytes, HEADER_BYTES, bytes.length - HEADER_BYTES, null));
        return user.get("name").toString();
    }
}

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads bodies with the classes that Kafka generates from its schemas, and writes them again.
 *
 * <p>A question on standard input: class name (two bytes of length, UTF-8), int16 version, int32 size,
 * body. The answer on standard output: one byte (0 read and written, 1 not read, 2 not written), int32
 * size, and the bytes that Kafka wrote or the text of its refusal. The class name `errors` asks for all
 * of Kafka's error codes, one line each: code, name, whether it is retriable.
 */
public final class RoundTrip {
    public static void main(String[] arguments) throws IOException {
        DataInputStream questions = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream answers = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        while (true) {
            String name;
            try {
                name = questions.readUTF();
            } catch (EOFException end) {
                break;
            }
            short version = questions.readShort();
            byte[] body = new byte[questions.readInt()];
            questions.readFully(body);
            answer(name, version, body, answers);
        }
        answers.flush();
    }

    private static void answer(String name, short version, byte[] body, DataOutputStream answers)
            throws IOException {
        byte[] bytes;
        int refused = 1;
        try {
            if (name.equals("errors")) {
                bytes = errors();
            } else {
                Message message = read(name, version, body);
                refused = 2;
                bytes = write(message, version);
            }
            refused = 0;
        } catch (ReflectiveOperationException | RuntimeException refusal) {
            bytes = refusal.toString().getBytes(StandardCharsets.UTF_8);
        }
        answers.writeByte(refused);
        answers.writeInt(bytes.length);
        answers.write(bytes);
    }

    private static Message read(String name, short version, byte[] body) throws ReflectiveOperationException {
        Message message = (Message) Class.forName(name).getConstructor().newInstance();
        ByteBufferAccessor readable = new ByteBufferAccessor(ByteBuffer.wrap(body));
        message.read(readable, version);
        if (readable.remaining() > 0) {
            throw new IllegalStateException(readable.remaining() + " bytes were not read");
        }
        return message;
    }

    private static byte[] write(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer written = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(written), cache, version);
        return written.array();
    }

    private static byte[] errors() {
        StringBuilder lines = new StringBuilder();
        for (Errors each : Errors.values()) {
            boolean retriable = each.exception() instanceof RetriableException;
            lines.append(each.code()).append(' ').append(each.name()).append(' ').append(retriable).append('\n');
        }
        return lines.toString().getBytes(StandardCharsets.UTF_8);
    }
}

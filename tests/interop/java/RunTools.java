import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods that standard input names, in one JVM.
 *
 * A request is CLASS, the text to type, and the arguments, with U+001F between them and U+001E at the end.
 * An answer is the exit status, standard output and standard error in the same form.
 */
public final class RunTools {
    private static final int END = 0x1e;
    private static final String FIELD = "\u001f";

    /** Ends a tool that calls exit, instead of the JVM. */
    private static final class Ended extends Error {
        final int status;

        Ended(int status) {
            super(null, null, false, false);
            this.status = status;
        }
    }

    public static void main(String[] unused) throws Exception {
        InputStream requests = System.in;
        PrintStream answers = System.out;
        Exit.setExitProcedure((status, message) -> {
            throw new Ended(status);
        });
        Exit.setHaltProcedure((status, message) -> {
            throw new Ended(status);
        });
        for (String request = read(requests); request != null; request = read(requests)) {
            String[] fields = request.split(FIELD, -1);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(fields[1].getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            int status = run(fields[0], Arrays.copyOfRange(fields, 2, fields.length));
            System.out.flush();
            String answer = status + FIELD + out.toString(StandardCharsets.UTF_8)
                + FIELD + err.toString(StandardCharsets.UTF_8) + (char) END;
            answers.write(answer.getBytes(StandardCharsets.UTF_8));
            answers.flush();
        }
    }

    private static int run(String name, String[] arguments) throws Exception {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException thrown) {
            if (thrown.getCause() instanceof Ended) {
                return ((Ended) thrown.getCause()).status;
            }
            thrown.getCause().printStackTrace();
            return 1;
        }
    }

    private static String read(InputStream requests) throws Exception {
        ByteArrayOutputStream request = new ByteArrayOutputStream();
        for (int next = requests.read(); next != END; next = requests.read()) {
            if (next < 0) {
                return null;
            }
            request.write(next);
        }
        return request.toString(StandardCharsets.UTF_8);
    }
}

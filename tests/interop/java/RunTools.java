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

    /** Ends a tool that calls exit, instead of the JVM. Some tools catch it and call exit again. */
    private static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    private static final ByteArrayOutputStream OUT = new ByteArrayOutputStream();
    private static final ByteArrayOutputStream ERR = new ByteArrayOutputStream();
    private static String answer;

    public static void main(String[] unused) throws Exception {
        InputStream requests = System.in;
        PrintStream answers = System.out;
        Exit.setExitProcedure((status, message) -> end(status));
        Exit.setHaltProcedure((status, message) -> end(status));
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        for (String request = read(requests); request != null; request = read(requests)) {
            String[] fields = request.split(FIELD, -1);
            OUT.reset();
            ERR.reset();
            answer = null;
            System.setIn(new ByteArrayInputStream(fields[1].getBytes(StandardCharsets.UTF_8)));
            run(fields[0], Arrays.copyOfRange(fields, 2, fields.length));
            answers.write(answer.getBytes(StandardCharsets.UTF_8));
            answers.write(END);
            answers.flush();
        }
    }

    private static void end(int status) {
        tell(status);
        throw new Ended();
    }

    /** The first exit counts, and what was printed before it. */
    private static void tell(int status) {
        if (answer == null) {
            System.out.flush();
            System.err.flush();
            answer = status + FIELD + OUT.toString(StandardCharsets.UTF_8)
                + FIELD + ERR.toString(StandardCharsets.UTF_8);
        }
    }

    private static void run(String name, String[] arguments) throws Exception {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            tell(0);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                thrown.getCause().printStackTrace();
            }
            tell(1);
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

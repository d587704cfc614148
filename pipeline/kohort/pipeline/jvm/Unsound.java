package kohort.spark;

import java.io.IOException;

/** What stops the JVM: Python says whether it is an error. */
final class Unsound extends IOException {
    private static final long serialVersionUID = 1L;

    Unsound(String message) {
        super(message);
    }
}

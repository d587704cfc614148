package kohort.spark;

import java.util.concurrent.atomic.AtomicBoolean;

import org.slf4j.LoggerFactory;

/** Says once that this Spark is not the one that these classes were compiled for. */
final class OtherSpark {
    private static final AtomicBoolean SAID = new AtomicBoolean();

    private OtherSpark() {}

    static void say(LinkageError error) {
        if (SAID.compareAndSet(false, true)) {
            LoggerFactory.getLogger(OtherSpark.class).warn(
                "this executor's Spark is another one than kohort's reader of segments was compiled for: Python"
                + " reads them, which takes longer ({})", error.toString());
        }
    }
}

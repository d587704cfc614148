package kohort.spark;

import org.apache.spark.QueryContext;
import org.apache.spark.SparkRuntimeException;
import scala.collection.immutable.Map;

/**
 * What ends a query: files that are not there any more, or that hold what is no sound record batch.
 *
 * <p>Spark hands its own exceptions on from a task as they are, and PySpark makes a {@code PySparkException} of
 * them; all others come as a job that was aborted. Its condition is the one of files that can't be read.
 */
class SegmentException extends SparkRuntimeException {
    private static final long serialVersionUID = 1L;
    private static final String CONDITION = "FAILED_READ_FILE.NO_HINT";

    private final String message;

    SegmentException(String path, String message, Throwable cause) {
        super(CONDITION, new Map.Map1<>("path", path), cause, new QueryContext[0], "");
        this.message = message;
    }

    static SegmentException unreadable(String path, Exception error) {
        return new SegmentException(path, path + " can't be read: " + error, error);
    }

    @Override
    public String getMessage() {
        return message;
    }

    /** Records that were to be read are not there any more. */
    static final class DataLoss extends SegmentException {
        private static final long serialVersionUID = 1L;

        DataLoss(String path, String message) {
            super(path, message, null);
        }

        static DataLoss deleted(String path) {
            return new DataLoss(path, path + " was deleted while the query ran");
        }

        static DataLoss notThere(String path) {
            return new DataLoss(path, path + " is not there: it was deleted while the query ran, or this host"
                + " does not share the folder with the driver's");
        }

        static DataLoss rewritten(String path) {
            return new DataLoss(path, path + " was rewritten while the query ran: run it again");
        }

        static DataLoss shorter(String path) {
            return new DataLoss(path, path + " has become shorter while the query ran");
        }
    }

    /** A segment holds what is no sound record batch, and not at the end of its log. */
    static final class Damaged extends SegmentException {
        private static final long serialVersionUID = 1L;

        Damaged(String path, String what) {
            this(path, what, null);
        }

        Damaged(String path, String what, Throwable cause) {
            super(path, path + ": " + what, cause);
        }
    }
}

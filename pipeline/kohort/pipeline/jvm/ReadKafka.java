package kohort.spark;

import java.util.HashMap;
import java.util.Map;

import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedArgumentExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;

import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * The table function {@code read_kafka} of Databricks: {@code SELECT * FROM read_kafka(bootstrapServers => '...',
 * subscribe => '...')} is {@code format("kohort")} with these options, and {@code FROM STREAM read_kafka(...)} a
 * stream of it.
 *
 * <p>Spark tells a table function its arguments, but not whether STREAM stands before it: the text of the call in
 * the statement begins with that word.
 */
public final class ReadKafka extends AbstractFunction1<Seq<Expression>, LogicalPlan> {
    private static final String NAME = "read_kafka";
    private static final String FORMAT = "kohort";
    private static final String STREAM = "STREAM";

    private ReadKafka() {
    }

    /** Lets the SQL of a session call the function. */
    public static void register(SparkSession session) {
        session.sessionState().tableFunctionRegistry().createOrReplaceTempFunction(NAME, new ReadKafka(), "scala_udf");
    }

    @Override
    public LogicalPlan apply(Seq<Expression> arguments) {
        Map<String, String> options = new HashMap<>();
        for (Expression each : CollectionConverters.asJava(arguments)) {
            if (!(each instanceof NamedArgumentExpression named)) {
                throw new IllegalArgumentException("read_kafka takes options by name, such as subscribe => 'orders'");
            }
            Object value = named.value().foldable() ? named.value().eval(null) : null;
            if (value == null) {
                throw new IllegalArgumentException("read_kafka: the option " + named.key() + " is not a constant value");
            }
            if (options.put(named.key(), value.toString()) != null) {
                throw new IllegalArgumentException("read_kafka: the option " + named.key() + " is given twice");
            }
        }
        SparkSession session = SparkSession.active();
        Dataset<?> frame = isStream(CurrentOrigin.get())
            ? (Dataset<?>) session.readStream().format(FORMAT).options(options).load()
            : (Dataset<?>) session.read().format(FORMAT).options(options).load();
        return frame.logicalPlan();
    }

    private static boolean isStream(Origin call) {
        if (call.sqlText().isEmpty() || call.startIndex().isEmpty()) {
            return false;
        }
        int begin = (Integer) call.startIndex().get();
        return call.sqlText().get().regionMatches(true, begin, STREAM, 0, STREAM.length());
    }
}

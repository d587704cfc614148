"""What of `kohort-segments` runs in Spark's JVM: Java's source, and how a session is told of it."""

"""The part of `kohort-segments` that runs in Spark's JVM: its Java source, and how a session loads it."""

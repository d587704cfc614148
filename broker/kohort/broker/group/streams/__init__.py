"""Streams groups (KIP-1071): the tasks of an application of Kafka Streams, given out by the broker."""

"""Kafka's access control lists, without any I/O."""

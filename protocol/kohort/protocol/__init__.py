"""Kafka's wire protocol: messages, record batches, and the records of internal topics."""

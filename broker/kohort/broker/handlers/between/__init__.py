"""What brokers of one cluster ask each other beside Kafka's APIs."""

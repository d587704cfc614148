"""Three Kafka clients in one consumer group count every flight, whatever is killed meanwhile."""

"""Classic groups: members that join and sync together, generation after generation (Kafka: ClassicGroup)."""

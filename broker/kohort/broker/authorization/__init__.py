"""Who may do what: Kafka's access control lists, without any I/O."""

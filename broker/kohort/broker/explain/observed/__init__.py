"""Groups explained from outside: rules over what any Kafka cluster has written and answered. Pure."""

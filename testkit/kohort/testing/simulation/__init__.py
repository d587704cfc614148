"""A whole Kafka application in virtual time, from one seed."""

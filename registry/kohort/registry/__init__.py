"""A schema registry: Confluent's REST API, with its schemas in a topic of any Kafka.

`kohort registry --bootstrap-server localhost:9092` serves it. The records of the topic `_schemas` have the
format of Confluent's own registry, so that either can take the other's place.
"""

"""What all processes of the demo agree on."""

TOPIC = "flights"
PARTITIONS = 8
GROUP = "flights-counters"
ASSIGNOR = "range"
SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_INTERVAL_MS = 1_000
BATCH_RECORDS = 1_000
"""Flights that a member counts between two commits: at most so many are read twice when it dies."""
FLIGHTS_PER_SECOND = 15_000
"""How fast a member works, which is slower than it reads: there is something left when others are killed."""
POLL_TIMEOUT_MS = 200
CLIENTS = ("kafka-python", "aiokafka", "confluent-kafka")
MEMBERS = {
    "classic": CLIENTS,
    "consumer": ("confluent-kafka-consumer", "kohort-consumer-1", "kohort-consumer-2"),
    "share": ("kohort-share-1", "kohort-share-2", "kohort-share-3"),
}
"""Who is in the group, by its kind."""
GROUP_SETTINGS = {
    "classic": {},
    "consumer": {
        "consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "consumer.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
    },
    "share": {
        "share.auto.offset.reset": "earliest",
        "share.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "share.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
    },
}
"""What members of a classic group say themselves is the group's to say in the others."""

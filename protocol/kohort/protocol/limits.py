"""How large a request may be, by its API: what is too large is refused before it takes memory or time.

An element of an array costs a broker 2 to 10 us until it is answered, so that their number is limited, too:
all arrays of a request together may have `MAX_ITEMS`, those of requests about partitions `MAX_PARTITIONS`, in
no more than `MAX_ITEMS` topics and groups. Those which name what is to be created, altered or described may
have `MAX_NAMED`: 10,000 partitions with five replicas each, the most that Kafka creates at once, or as many
changed settings. Kafka has no such limits, but an OffsetCommit of more than about 12,000 partitions is more
than its `__consumer_offsets` takes in one batch.

Only records are large. 8 MiB hold an OffsetCommit of 200,000 partitions, or the assignments of 10,000
members at 800 bytes each, eight times what Kafka's `__consumer_offsets` takes in one batch by default.
"""

MAX_REQUEST_BYTES = 8 * 1024 * 1024
MAX_ITEMS = 20_000
MAX_NAMED = 60_100
MAX_PARTITIONS = 100_000
PRODUCE_KEY = 0


def max_request_bytes(api_key: int, socket_request_max_bytes: int) -> int:
    """Return the largest frame that a request of this API may be; Produce is held to the setting alone."""
    if api_key == PRODUCE_KEY:
        return socket_request_max_bytes
    return min(socket_request_max_bytes, MAX_REQUEST_BYTES)

"""The largest request of each API. A larger request is refused before it takes memory or time.

An array element costs a broker 2 to 10 us, so the number of elements is limited, too. All arrays of a request
together may have `MAX_ITEMS` elements. In requests about partitions they may have `MAX_PARTITIONS` elements,
in at most `MAX_ITEMS` topics and groups. Requests that create, alter or describe resources may have
`MAX_NAMED` elements: 10,000 partitions with five replicas each, the most that Kafka creates at once, or as
many settings. Kafka has no such limits, but its `__consumer_offsets` does not take an OffsetCommit of more
than about 12,000 partitions in one batch.

Only records are large. 8 MiB hold an OffsetCommit of 200,000 partitions, or the assignments of 10,000
members of 800 bytes each: eight times the largest batch of Kafka's `__consumer_offsets` by default.
"""

MAX_REQUEST_BYTES = 8 * 1024 * 1024
MAX_ITEMS = 20_000
MAX_NAMED = 60_100
MAX_PARTITIONS = 100_000
PRODUCE_KEY = 0


def max_request_bytes(api_key: int, socket_request_max_bytes: int) -> int:
    """Return the largest request of this API, in bytes. Only the setting limits Produce."""
    if api_key == PRODUCE_KEY:
        return socket_request_max_bytes
    return min(socket_request_max_bytes, MAX_REQUEST_BYTES)

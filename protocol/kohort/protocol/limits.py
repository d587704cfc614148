"""How large a request may be, by its API: what is too large is refused before it takes memory or time.

Only records are large. 8 MiB hold an OffsetCommit of 200,000 partitions, or the assignments of 10,000
members at 800 bytes each, eight times what Kafka's `__consumer_offsets` takes in one batch by default.
"""

MAX_REQUEST_BYTES = 8 * 1024 * 1024
PRODUCE_KEY = 0


def max_request_bytes(api_key: int, socket_request_max_bytes: int) -> int:
    """Return the largest frame that a request of this API may be; Produce is held to the setting alone."""
    if api_key == PRODUCE_KEY:
        return socket_request_max_bytes
    return min(socket_request_max_bytes, MAX_REQUEST_BYTES)

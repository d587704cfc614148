"""One set of options for a client that is a consumer and a producer."""

from typing import cast

from kohort.client.config import ClientOptions, ConsumerOptions, ProducerOptions
from kohort.client.errors import ConfigurationError

RECORD_BYTES_MAX = 67_108_864
_OURS = ("group_id", "enable_auto_commit")


def shared_options(options: ConsumerOptions) -> ClientOptions:
    """Return those that every client takes."""
    names = ClientOptions.__annotations__
    return cast(ClientOptions, {name: value for name, value in options.items() if name in names})


def consumer_options(options: ConsumerOptions, group_id: str) -> ConsumerOptions:
    """Return a member's options: it begins at the beginning and commits by hand.

    Raises: ConfigurationError for what a queue decides itself.
    """
    for name in _OURS:
        if name in options:
            raise ConfigurationError(f"{name} cannot be set here: it follows from what is consumed")
    found: ConsumerOptions = {
        "auto_offset_reset": "earliest",
        **options,
        "group_id": group_id,
        "enable_auto_commit": False,
    }
    return found


def reader_options(options: ConsumerOptions) -> ConsumerOptions:
    """Return the options of a consumer that is in no group, and reads what is there already."""
    found: ConsumerOptions = {
        **cast(ConsumerOptions, shared_options(options)),
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "fetch_max_wait_ms": 20,  # What waits at an end delays whatever is asked next.
    }
    return found


def hasty_producer_options(options: ConsumerOptions, within_ms: int) -> ProducerOptions:
    """Return the options of a producer that has given up, or has written, what it was given so long ago."""
    linger_ms = 1
    found = producer_options(options, linger_ms)
    request_timeout_ms = max(1, within_ms - linger_ms)
    found["request_timeout_ms"] = min(request_timeout_ms, found.get("request_timeout_ms", request_timeout_ms))
    found["delivery_timeout_ms"] = request_timeout_ms + linger_ms
    found["max_block_ms"] = within_ms // 8
    return found


def producer_options(options: ConsumerOptions, linger_ms: int = 1) -> ProducerOptions:
    """Return the options of the producer beside that consumer: what was read somewhere can be written."""
    found: ProducerOptions = {
        **cast(ProducerOptions, shared_options(options)),
        "linger_ms": linger_ms,
        "buffer_memory": RECORD_BYTES_MAX,
        "max_request_size": RECORD_BYTES_MAX,
    }
    return found

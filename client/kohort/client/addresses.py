"""Addresses of brokers as settings have them."""

import re

from kohort.client.errors import ConfigurationError

DEFAULT_PORT = 9092
_ADDRESS = r"(?:[\w.%-]*://)?(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:\s/]+))(?::(?P<port>\d+))?"


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `host:port`, `host` or `[ipv6]:port`. Raises: ConfigurationError.

    A listener name before it, as in `PLAINTEXT://host:port`, is ignored, as in Kafka's clients: the
    security_protocol decides. Source: org.apache.kafka.common.utils.Utils, HOST_PORT_PATTERN.
    """
    found = re.fullmatch(_ADDRESS, text)
    if found is None or int(found["port"] or DEFAULT_PORT) > 65_535:
        raise ConfigurationError(f"{text!r} is not an address: give HOST:PORT, such as localhost:9092")
    return found["six"] or found["host"], int(found["port"] or DEFAULT_PORT)

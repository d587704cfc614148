"""The addresses of clients in one spelling, whoever has written them.

Java, and so Kafka's entries, spell IPv6 out (0:0:0:0:0:0:0:1), sockets shorten it (::1), and one that takes
both kinds of clients maps IPv4 into it (::ffff:10.0.0.1). What compares addresses compares these.
"""

from functools import lru_cache

KEPT = 1_024


@lru_cache(KEPT)
def canonical_address(text: str) -> str:
    """Return the address as sockets write it, IPv4 as such; what is no address stays as it is."""
    if ":" not in text:
        return text
    from ipaddress import IPv6Address  # noqa: PLC0415  # Few brokers meet any.

    try:
        found = IPv6Address(text)
    except ValueError:
        return text
    return str(found.ipv4_mapped or found)

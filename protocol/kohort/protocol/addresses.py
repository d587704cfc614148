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


@lru_cache(KEPT)
def network_of(address: str) -> str:
    """Return the network that one customer of a provider has: the /64 of IPv6, the address itself of IPv4.

    Who has an IPv6 address has 2^64 of them as a rule. What is no address stays as it is.
    """
    text = canonical_address(address)
    if ":" not in text:
        return text
    from ipaddress import IPv6Address  # noqa: PLC0415  # As above.

    try:
        number = int(IPv6Address(text))
    except ValueError:  # One with a zone that Python does not know.
        return text
    return f"{IPv6Address(number >> 64 << 64)}/64"

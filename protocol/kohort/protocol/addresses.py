"""Client addresses in one canonical form, for comparison.

Java, and so Kafka's ACLs, write IPv6 in full (0:0:0:0:0:0:0:1). Sockets shorten it (::1). A dual-stack socket
maps IPv4 into IPv6 (::ffff:10.0.0.1).
"""

from functools import lru_cache

CACHE_SIZE = 1_024


@lru_cache(CACHE_SIZE)
def canonical_address(text: str) -> str:
    """Return the address as sockets write it, mapped IPv4 as IPv4. Other text is returned unchanged."""
    if ":" not in text:
        return text
    from ipaddress import IPv6Address  # noqa: PLC0415  # Most brokers see no IPv6 address.

    try:
        found = IPv6Address(text)
    except ValueError:
        return text
    return str(found.ipv4_mapped or found)


@lru_cache(CACHE_SIZE)
def network_of(address: str) -> str:
    """Return the network of one customer of a provider: the /64 of an IPv6 address, an IPv4 address itself.

    A provider usually gives a customer 2^64 IPv6 addresses. Text that is no address is returned unchanged.
    """
    text = canonical_address(address)
    if ":" not in text:
        return text
    from ipaddress import IPv6Address  # noqa: PLC0415  # As above.

    try:
        number = int(IPv6Address(text))
    except ValueError:  # An address with a zone that Python does not know.
        return text
    return f"{IPv6Address(number >> 64 << 64)}/64"

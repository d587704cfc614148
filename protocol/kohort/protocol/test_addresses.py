"""One address has one spelling."""

import pytest

from kohort.protocol.addresses import canonical_address


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:ffff:a00:1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8:0:0:0:0:0:5", "2001:db8::5"),
        ("fe80:0:0:0:0:0:0:1%eth0", "fe80::1%eth0"),
        ("*", "*"),
        ("a:name", "a:name"),
    ],
)
def test_an_address_is_spelled_as_sockets_do(text: str, canonical: str) -> None:
    assert canonical_address(text) == canonical

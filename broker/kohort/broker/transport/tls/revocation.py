"""Which certificates a list has revoked, among those that clients have shown before it came.

OpenSSL looks at the list when somebody shakes hands; this is about those who have by then.
Source: RFC 5280, 5.1.
"""

import base64
import re
from collections.abc import Collection

from kohort.broker.transport.tls.names import parts_of

Identity = tuple[bytes, bytes]
"""Who has signed a certificate, and its number, both in DER."""

_LIST = re.compile(r"-----BEGIN X509 CRL-----(.*?)-----END X509 CRL-----", re.DOTALL)
_INTEGER, _SEQUENCE, _TIMES, _CONTEXT_0 = 0x02, 0x30, (0x17, 0x18), 0xA0


def identity_of(certificate: bytes) -> Identity:
    """Return whose signature a DER certificate bears, and its number. Raises: ValueError."""
    try:
        [(_, whole)] = parts_of(certificate)
        fields = [each for each in parts_of(next(parts_of(whole))[1]) if each[0] != _CONTEXT_0]
        return fields[2][1], fields[0][1]  # Behind number and algorithm.
    except (IndexError, StopIteration) as error:
        raise ValueError(f"a certificate that cannot be read: {error}") from None


def revoked_among(text: str, shown: Collection[Identity]) -> set[Identity]:
    """Return which of these certificates the lists in a PEM file have. Raises: ValueError."""
    found: set[Identity] = set()
    for each in _LIST.finditer(text):
        found |= _revoked_by(base64.b64decode("".join(each[1].split())), shown)
    return found


def _revoked_by(data: bytes, shown: Collection[Identity]) -> set[Identity]:
    try:
        [(_, whole)] = parts_of(data)
        fields = list(parts_of(next(parts_of(whole))[1]))
        if fields[0][0] == _INTEGER:  # The version, which old lists have not.
            del fields[0]
        issuer = fields[1][1]
        behind = [each for each in fields[2:] if each[0] not in _TIMES]
        if not behind or behind[0][0] != _SEQUENCE:
            return set()  # Nothing is revoked.
        numbers = {number for signer, number in shown if signer == issuer}
        entries = parts_of(behind[0][1]) if numbers else iter(())
        revoked = {next(parts_of(entry))[1] for _, entry in entries} & numbers
    except (IndexError, StopIteration) as error:
        raise ValueError(f"a list that cannot be read: {error}") from None
    return {(issuer, number) for number in revoked}

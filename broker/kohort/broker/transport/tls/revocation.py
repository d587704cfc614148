"""Finds open connections whose certificates a new revocation list revokes.

OpenSSL checks the list only during handshakes.
Source: RFC 5280, 5.1.
"""

import base64
import re
from collections.abc import Collection

from kohort.broker.transport.tls.names import parts_of

Identity = tuple[bytes, bytes]
"""The issuer and the serial number of a certificate, both in DER."""

_LIST = re.compile(r"-----BEGIN X509 CRL-----(.*?)-----END X509 CRL-----", re.DOTALL)
_INTEGER, _SEQUENCE, _TIMES, _CONTEXT_0 = 0x02, 0x30, (0x17, 0x18), 0xA0


def identity_of(certificate: bytes) -> Identity:
    """Return issuer and serial number of a DER certificate. Raises: ValueError."""
    try:
        [(_, whole)] = parts_of(certificate)
        fields = [each for each in parts_of(next(parts_of(whole))[1]) if each[0] != _CONTEXT_0]
        return fields[2][1], fields[0][1]  # After number and algorithm.
    except (IndexError, StopIteration) as error:
        raise ValueError(f"a certificate that cannot be read: {error}") from None


def revoked_among(text: str, shown: Collection[Identity]) -> set[Identity]:
    """Return which of these certificates are in the lists of a PEM file. Raises: ValueError."""
    found: set[Identity] = set()
    for each in _LIST.finditer(text):
        found |= _revoked_by(base64.b64decode("".join(each[1].split())), shown)
    return found


def _revoked_by(data: bytes, shown: Collection[Identity]) -> set[Identity]:
    try:
        [(_, whole)] = parts_of(data)
        fields = list(parts_of(next(parts_of(whole))[1]))
        if fields[0][0] == _INTEGER:  # The version, which old lists do not have.
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

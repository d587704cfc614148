"""Who may see the pages: names and secrets of a file, one `NAME:SECRET` a line. Pure.

A secret comes as Basic with its name (RFC 7617), as a browser sends it, or by itself as a Bearer token
(RFC 6750), as a scraper does.
"""

import hashlib
from base64 import b64decode
from binascii import Error
from contextlib import suppress
from hmac import compare_digest
from secrets import token_bytes

SECRET_CHARACTERS_MIN = 8
HEADER_CHARACTERS_MAX = 1_024

_NOBODYS = token_bytes(32)  # No secret has it: a name that there is not takes as long as one that there is.


class WrongCredentials(ValueError):
    """A file that says nobody, or too little of somebody; the text has no secret in it."""


class Credentials:
    """Names and the digests of their secrets: all are of one length, and none is kept as it is."""

    def __init__(self, text: str) -> None:
        """Raises: WrongCredentials."""
        self._digests: dict[str, bytes] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            name, colon, secret = line.strip().partition(":")
            if not colon or not name or len(secret) < SECRET_CHARACTERS_MIN:
                raise WrongCredentials(
                    f"line {number}: give NAME:SECRET, {SECRET_CHARACTERS_MIN} characters at least"
                )
            self._digests[name] = _digest(secret)
        if not self._digests:
            raise WrongCredentials("it names nobody: give NAME:SECRET, one a line")

    @staticmethod
    def claimed(header: str) -> str:
        """Return whose secret an Authorization header says that it shows; itself where it says no name."""
        scheme, _, shown = header[:HEADER_CHARACTERS_MAX].partition(" ")
        if scheme.lower() == "basic":
            with suppress(Error, ValueError):
                return f"Basic {b64decode(shown.strip(), validate=True).decode().partition(':')[0]}"
        return header

    def name_of(self, header: str) -> str:
        """Return whose secret an Authorization header shows; it is one of those that `knows` takes."""
        scheme, _, shown = header.partition(" ")
        if scheme.lower() == "basic":
            return b64decode(shown.strip()).decode().partition(":")[0]
        digest = _digest(shown.strip())
        return next(name for name, each in self._digests.items() if compare_digest(digest, each))

    def knows(self, header: str | None) -> bool:
        """Return whether an Authorization header shows one of the secrets."""
        if header is None or len(header) > HEADER_CHARACTERS_MAX:
            return False
        scheme, _, shown = header.partition(" ")
        if scheme.lower() == "bearer":
            digest = _digest(shown.strip())
            return sum(compare_digest(digest, each) for each in self._digests.values()) > 0  # Each of them.
        if scheme.lower() != "basic":
            return False
        try:
            name, _, secret = b64decode(shown.strip(), validate=True).decode().partition(":")
        except (Error, ValueError):
            return False
        return compare_digest(_digest(secret), self._digests.get(name, _NOBODYS))


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()

"""SCRAM, client and server: the client proves its password without sending it. Callers give nonces and salts.

    client   n,,n=alice,r=NONCE
    broker   r=NONCE+ITS,s=SALT,i=4096
    client   c=biws,r=NONCE+ITS,p=PROOF
    broker   v=SIGNATURE

The broker stores no password, only keys that can check a proof but cannot create one. Like Kafka's clients,
kohort does not apply SASLprep to passwords.
Source: RFC 5802, RFC 7677, Kafka's ScramSaslServer, ScramSaslClient and ScramFormatter.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from hashlib import new, pbkdf2_hmac
from hmac import compare_digest, digest
from typing import NamedTuple

MIN_ITERATIONS = 4_096
MAX_ITERATIONS = 16_384
NONCE_BYTES_MAX = 1_024
SALT_BITS = 130
SALT_SEED_BYTES = 32
"""Random bytes for one salt: so many that the bias of the modulo does not matter."""
_SALT_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"

_NAME = r"(?:[^=,\0]|=2C|=3D)+"
_CLIENT_FIRST = re.compile(
    rf"(?P<header>[ny],(?:a=(?P<authorization_id>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>(?:,[A-Za-z]+=[^,\0]*)*))"
)
_SERVER_FIRST = re.compile(r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=([0-9]{1,9})(?:,.*)?")
_CLIENT_FINAL = re.compile(
    r"(c=(?P<channel>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+=[^,\0]*)*),p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class ScramError(Exception):
    """A malformed message or a wrong proof. Its text contains no secret."""


class ScramMechanism(NamedTuple):
    """A mechanism: Kafka's name and number of it, and its hash function."""

    name: str
    number: int
    hash: str

    @property
    def size(self) -> int:
        """The length of its keys in bytes."""
        return new(self.hash).digest_size


MECHANISMS = {
    each.name: each
    for each in (ScramMechanism("SCRAM-SHA-256", 1, "sha256"), ScramMechanism("SCRAM-SHA-512", 2, "sha512"))
}
BY_NUMBER = {each.number: each for each in MECHANISMS.values()}


class ScramCredential(NamedTuple):
    """What a broker stores for a user's password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def salt_of(data: bytes) -> bytes:
    """Return a salt from random bytes, in the form of Kafka's tools: 130 bits in letters and digits.

    All salts have this form, so a salt does not show which tool created it. Source: Kafka's ScramFormatter.
    """
    number, digits = int.from_bytes(data, "big") % (1 << SALT_BITS), bytearray()
    while number:
        number, digit = divmod(number, len(_SALT_DIGITS))
        digits.append(_SALT_DIGITS[digit])
    return bytes(reversed(digits))


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return RFC 5802's SaltedPassword. This takes milliseconds."""
    return pbkdf2_hmac(mechanism.hash, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential that a broker stores."""
    client_key = digest(salted, b"Client Key", mechanism.hash)
    return ScramCredential(
        salt,
        new(mechanism.hash, client_key).digest(),
        digest(salted, b"Server Key", mechanism.hash),
        iterations,
    )


class ClientFirst(NamedTuple):
    """The parts of a client's first message."""

    name: str
    authorization_id: str | None
    """The user for whom the client wants to act, if given."""
    nonce: str
    header: str
    bare: str
    has_token: bool
    """Whether the client uses a delegation token, a Kafka extension."""


def client_first(message: bytes) -> ClientFirst:
    """Return the parts of a client's first message. Raises: ScramError."""
    found = _CLIENT_FIRST.fullmatch(_text(message))
    if found is None or len(found["nonce"]) > NONCE_BYTES_MAX:
        raise ScramError("an invalid first SCRAM message")
    authorization_id = found["authorization_id"]
    return ClientFirst(
        _plain_name(found["name"]),
        None if authorization_id is None else _plain_name(authorization_id),
        found["nonce"],
        found["header"],
        found["bare"],
        "tokenauth=true" in found["extensions"].split(","),
    )


class ScramServer:
    """The broker's side, after a client's first message."""

    def __init__(
        self, mechanism: ScramMechanism, first: ClientFirst, credential: ScramCredential, nonce: str
    ) -> None:
        self._mechanism = mechanism
        self._client_first = first
        self._credential = credential
        self._nonce = first.nonce + nonce
        salt = b64encode(credential.salt).decode()
        self.first = f"r={self._nonce},s={salt},i={credential.iterations}".encode()
        """The broker's first message."""

    def final(self, message: bytes) -> bytes:
        """Return the broker's final message. Raises: ScramError for a wrong proof."""
        found = _CLIENT_FINAL.fullmatch(_text(message))
        if found is None or _decoded(found["channel"]) != self._client_first.header.encode():
            raise ScramError("an invalid final SCRAM message")
        if found["nonce"] != self._nonce:
            raise ScramError("a wrong nonce in the final SCRAM message")
        hash_, proof = self._mechanism.hash, _decoded(found["proof"])
        auth_message = ",".join((self._client_first.bare, self.first.decode(), found[1])).encode()
        signature = digest(self._credential.stored_key, auth_message, hash_)
        if len(proof) != len(signature):
            raise ScramError("a proof of a wrong length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not compare_digest(new(hash_, client_key).digest(), self._credential.stored_key):
            raise ScramError("a wrong proof")
        return b"v=" + b64encode(digest(self._credential.server_key, auth_message, hash_))


class ScramClient:
    """The client's side."""

    def __init__(self, mechanism: ScramMechanism, name: str, password: str, nonce: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._signature = b""
        self.first = f"n,,{self._bare}".encode()
        """The client's first message."""

    def final(self, message: bytes) -> bytes:
        """Return the client's final message, for the broker's first message. Raises: ScramError."""
        found = _SERVER_FIRST.fullmatch(_text(message))
        if found is None or not found[1].startswith(self._nonce) or found[1] == self._nonce:
            raise ScramError("the broker's first message is no valid SCRAM message")
        iterations = int(found[3])
        # With fewer iterations a false broker could guess the password quickly.
        if not MIN_ITERATIONS <= iterations <= 10_000_000:
            raise ScramError(f"the broker asks for {iterations} iterations")
        hash_ = self._mechanism.hash
        salted = salted_password(self._mechanism, self._password, _decoded(found[2]), iterations)
        client_key = digest(salted, b"Client Key", hash_)
        bare_final = f"c=biws,r={found[1]}"
        auth_message = ",".join((self._bare, message.decode(), bare_final)).encode()
        signature = digest(new(hash_, client_key).digest(), auth_message, hash_)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = digest(digest(salted, b"Server Key", hash_), auth_message, hash_)
        return f"{bare_final},p={b64encode(proof).decode()}".encode()

    def check(self, message: bytes) -> None:
        """Check that the broker knows the password, too. Raises: ScramError."""
        text = _text(message)
        if not self._signature or not text.startswith("v="):
            raise ScramError("the broker has not shown that it knows the password")
        if not compare_digest(_decoded(text[2:].partition(",")[0]), self._signature):
            raise ScramError("the broker does not know the password")


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError("a SCRAM message that is not UTF-8") from None


def _plain_name(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise ScramError("invalid base64 in a SCRAM message") from None

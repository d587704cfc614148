"""SCRAM, both sides of it: a password is shown without being told. Pure: nonces and salts come from outside.

    client   n,,n=alice,r=NONCE
    broker   r=NONCE+ITS,s=SALT,i=4096
    client   c=biws,r=NONCE+ITS,p=PROOF
    broker   v=SIGNATURE

The broker keeps neither the password nor anything that could stand for it: what it has is enough to check
a proof, and to make none. As Kafka's clients do, passwords are taken as they are, without SASLprep.
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
"""Random bytes for one salt: enough that what is left over of them does not matter."""
_SALT_DIGITS = b"0123456789abcdefghijklmnopqrstuvwxyz"

_NAME = r"(?:[^=,\0]|=2C|=3D)+"
_CLIENT_FIRST = re.compile(
    rf"(?P<header>[ny],(?:a=(?P<other>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>(?:,[A-Za-z]+=[^,\0]*)*))"
)
_SERVER_FIRST = re.compile(r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=([0-9]{1,9})(?:,.*)?")
_CLIENT_FINAL = re.compile(
    r"(c=(?P<channel>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+=[^,\0]*)*),p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class ScramError(Exception):
    """A message that is none, or what it shows is wrong. Without anything secret."""


class ScramMechanism(NamedTuple):
    """A mechanism: Kafka's name and number of it, and the hash that it is made of."""

    name: str
    number: int
    hash: str

    @property
    def size(self) -> int:
        """How many bytes its keys have."""
        return new(self.hash).digest_size


MECHANISMS = {
    each.name: each
    for each in (ScramMechanism("SCRAM-SHA-256", 1, "sha256"), ScramMechanism("SCRAM-SHA-512", 2, "sha512"))
}
BY_NUMBER = {each.number: each for each in MECHANISMS.values()}


class ScramCredential(NamedTuple):
    """What a broker keeps of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def salt_of(data: bytes) -> bytes:
    """Return a salt as Kafka's tools make them, of random bytes: 130 bits in letters and digits.

    All salts have this form, so that none tells whose they are. Source: Kafka's ScramFormatter.
    """
    number, digits = int.from_bytes(data, "big") % (1 << SALT_BITS), bytearray()
    while number:
        number, digit = divmod(number, len(_SALT_DIGITS))
        digits.append(_SALT_DIGITS[digit])
    return bytes(reversed(digits))


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return what stands for the password; it takes milliseconds."""
    return pbkdf2_hmac(mechanism.hash, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return what a broker is to keep."""
    client_key = digest(salted, b"Client Key", mechanism.hash)
    return ScramCredential(
        salt,
        new(mechanism.hash, client_key).digest(),
        digest(salted, b"Server Key", mechanism.hash),
        iterations,
    )


class ClientFirst(NamedTuple):
    """What a client begins with."""

    name: str
    other: str | None
    """For whom it wants to act, if it says so."""
    nonce: str
    header: str
    bare: str
    has_token: bool
    """Whether it shows a delegation token, by Kafka's extension."""


def client_first(message: bytes) -> ClientFirst:
    """Return the parts of a client's first message. Raises: ScramError."""
    found = _CLIENT_FIRST.fullmatch(_text(message))
    if found is None or len(found["nonce"]) > NONCE_BYTES_MAX:
        raise ScramError("a first message that is none of SCRAM's")
    other = found["other"]
    return ClientFirst(
        _plain_name(found["name"]),
        None if other is None else _plain_name(other),
        found["nonce"],
        found["header"],
        found["bare"],
        "tokenauth=true" in found["extensions"].split(","),
    )


class ScramServer:
    """The broker's side behind a client's first message."""

    def __init__(
        self, mechanism: ScramMechanism, begun: ClientFirst, credential: ScramCredential, nonce: str
    ) -> None:
        self._mechanism = mechanism
        self._begun = begun
        self._credential = credential
        self._nonce = begun.nonce + nonce
        salt = b64encode(credential.salt).decode()
        self.first = f"r={self._nonce},s={salt},i={credential.iterations}".encode()
        """What it answers to that."""

    def final(self, message: bytes) -> bytes:
        """Return what it answers to the client's proof. Raises: ScramError where that is none."""
        found = _CLIENT_FINAL.fullmatch(_text(message))
        if found is None or _decoded(found["channel"]) != self._begun.header.encode():
            raise ScramError("a final message that is none of SCRAM's")
        if found["nonce"] != self._nonce:
            raise ScramError("a final message with the nonce of another conversation")
        hash_, proof = self._mechanism.hash, _decoded(found["proof"])
        said = ",".join((self._begun.bare, self.first.decode(), found[1])).encode()
        signature = digest(self._credential.stored_key, said, hash_)
        if len(proof) != len(signature):
            raise ScramError("a proof of another length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not compare_digest(new(hash_, client_key).digest(), self._credential.stored_key):
            raise ScramError("a wrong proof")
        return b"v=" + b64encode(digest(self._credential.server_key, said, hash_))


class ScramClient:
    """A client's side."""

    def __init__(self, mechanism: ScramMechanism, name: str, password: str, nonce: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._signature = b""
        self.first = f"n,,{self._bare}".encode()
        """What it begins with."""

    def final(self, message: bytes) -> bytes:
        """Return its proof to the broker's first message. Raises: ScramError."""
        found = _SERVER_FIRST.fullmatch(_text(message))
        if found is None or not found[1].startswith(self._nonce) or found[1] == self._nonce:
            raise ScramError("the broker's first message is none of SCRAM's")
        iterations = int(found[3])
        if not MIN_ITERATIONS <= iterations <= 10_000_000:  # Fewer would let a false broker guess quickly.
            raise ScramError(f"the broker wants {iterations} iterations")
        hash_ = self._mechanism.hash
        salted = salted_password(self._mechanism, self._password, _decoded(found[2]), iterations)
        client_key = digest(salted, b"Client Key", hash_)
        bare_final = f"c=biws,r={found[1]}"
        said = ",".join((self._bare, message.decode(), bare_final)).encode()
        signature = digest(new(hash_, client_key).digest(), said, hash_)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = digest(digest(salted, b"Server Key", hash_), said, hash_)
        return f"{bare_final},p={b64encode(proof).decode()}".encode()

    def check(self, message: bytes) -> None:
        """Return if the broker knows the password as well. Raises: ScramError."""
        text = _text(message)
        if not self._signature or not text.startswith("v="):
            raise ScramError("the broker has not shown that it knows the password")
        if not compare_digest(_decoded(text[2:].partition(",")[0]), self._signature):
            raise ScramError("the broker does not know the password")


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError("a message that is no text") from None


def _plain_name(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise ScramError("a message with something that is no base64") from None

"""Certificates that their authority has taken back open no door, and lists of them are read anew."""

from __future__ import annotations

import datetime
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from kohort.protocol.messages.api_versions import ApiVersionsRequest
from tests.attacks.wire import frame
from tests.interop.waiting import wait_until
from tests.security.secured import Secured

REQUIRED = "ssl.client.auth=required"


def serial(path: Path) -> int:
    """Return the number of the first certificate in the file."""
    _, begin, rest = path.read_bytes().partition(b"-----BEGIN CERTIFICATE-----")
    return x509.load_pem_x509_certificate(begin + rest).serial_number


def revoked_list(authority: trustme.CA, *serials: int, days: int = 30) -> bytes:
    """Return the authority's list, which is good for so many days since yesterday."""
    signer = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    made = x509.CertificateRevocationListBuilder().issuer_name(signer.subject)
    made = made.last_update(yesterday - datetime.timedelta(days=9))
    made = made.next_update(yesterday + datetime.timedelta(days=days, hours=1))
    for each in serials:
        entry = x509.RevokedCertificateBuilder().serial_number(each).revocation_date(yesterday)
        made = made.add_revoked_certificate(entry.build())
    key = load_pem_private_key(authority.private_key_pem.bytes(), None)
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)  # type: ignore[arg-type]  # RSA or EC.


class Revoking(Secured):
    """A broker with such a list."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.crl = folder / "revoked.pem"
        super().__init__(folder, f"kohort.ssl.crl.location={self.crl}", REQUIRED, *settings)
        self.put(revoked_list(self.authority))

    def put(self, content: bytes) -> None:
        """Put the list there at once and as a whole."""
        (self.folder / "next.crl").write_bytes(content)
        (self.folder / "next.crl").replace(self.crl)

    def lets_in(self, client: Path, *, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bool:
        """Return whether a client with this certificate comes in, and is answered."""
        context = ssl.create_default_context(cafile=str(self.trusted))
        context.load_cert_chain(client)
        context.maximum_version = version
        try:
            with (
                socket.create_connection(self.address, 20) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as secure,
            ):
                secure.sendall(frame(ApiVersionsRequest(), 0))
                return bool(secure.recv(4))
        except (ssl.SSLError, ConnectionError):
            return False

    def says(self, words: str) -> bool:
        """Return whether the log has these."""
        return any(words in line for line in self.broker.log_lines())


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Revoking]:
    """A broker whose list is empty at first."""
    made = Revoking(tmp_path)
    made.broker.start()
    yield made
    made.broker.stop()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_with_a_revoked_certificate_is_refused(here: Revoking, version: ssl.TLSVersion) -> None:
    good, bad = here.client("good"), here.client("bad")
    assert here.lets_in(good, version=version)
    assert here.lets_in(bad, version=version)
    here.put(revoked_list(here.authority, serial(bad)))
    wait_until(lambda: here.reloads() == 1, "the list is read anew")
    assert not here.lets_in(bad, version=version)
    assert here.lets_in(good, version=version)
    wait_until(lambda: here.says("its certificate is refused: certificate revoked"), "the log says why")
    here.put(revoked_list(here.authority))
    wait_until(lambda: here.reloads() == 2, "the list is read anew")
    assert here.lets_in(bad, version=version)


def test_a_connection_with_a_certificate_revoked_later_is_closed(here: Revoking) -> None:
    good, bad, others = (
        here.client("good"),
        here.client("bad"),
        [here.client(f"c{each}") for each in range(3)],
    )
    with ExitStack() as stack:
        lines = {}
        for path in (good, bad):
            context = ssl.create_default_context(cafile=str(here.trusted))
            context.load_cert_chain(path)
            plain = stack.enter_context(socket.create_connection(here.address, 20))
            lines[path] = stack.enter_context(context.wrap_socket(plain, server_hostname="localhost"))
            assert asked(lines[path])
        here.put(
            revoked_list(trustme.CA(), serial(good)) + revoked_list(here.authority, *map(serial, others))
        )
        wait_until(lambda: here.reloads() == 1, "the list is read anew")
        assert asked(lines[good])
        assert asked(lines[bad])
        here.put(revoked_list(here.authority, *map(serial, (*others, bad))))
        wait_until(lambda: here.says("its certificate is revoked"), "the log says so")
        assert not asked(lines[bad])
        assert asked(lines[good])


def test_a_handshake_that_started_before_the_list_is_refused(here: Revoking) -> None:
    good, bad = here.client("good"), here.client("bad")
    context = ssl.create_default_context(cafile=str(here.trusted))
    context.load_cert_chain(bad)
    with socket.create_connection(here.address, 20) as plain:
        assert here.lets_in(good), "connections are taken in order"
        here.put(revoked_list(here.authority, serial(bad)))
        wait_until(lambda: here.reloads() == 1, "the list is read anew")
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as line:
                assert not asked(line)
        except (ssl.SSLError, ConnectionError):
            pass  # It is closed already.
    assert here.lets_in(good)


def asked(line: ssl.SSLSocket) -> bool:
    """Return whether one who is connected is answered."""
    try:
        line.sendall(frame(ApiVersionsRequest(), 0))
        head = line.recv(4)
        return bool(head) and len(line.recv(int.from_bytes(head, "big"))) > 0
    except (ssl.SSLError, ConnectionError):
        return False


def test_a_tls_session_from_before_a_revocation_cannot_be_resumed(here: Revoking) -> None:
    bad = here.client("bad")
    context = ssl.create_default_context(cafile=str(here.trusted))
    context.load_cert_chain(bad)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # Whose sessions are there with the handshake.
    with (
        socket.create_connection(here.address, 20) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        session = secure.session
    here.put(revoked_list(here.authority, serial(bad)))
    wait_until(lambda: here.reloads() == 1, "the list is read anew")
    answered = b""
    with suppress(ssl.SSLError, ConnectionError), socket.create_connection(here.address, 20) as plain:
        secure = context.wrap_socket(plain, server_hostname="localhost", session=session)
        secure.sendall(frame(ApiVersionsRequest(), 0))
        answered = secure.recv(4)
    assert not answered


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"]
)
def test_an_unreadable_list_leaves_the_old_one_in_force(here: Revoking, content: bytes) -> None:
    bad = here.client("bad")
    here.put(revoked_list(here.authority, serial(bad)))
    wait_until(lambda: here.reloads() == 1, "the list is read anew")
    here.put(content)
    wait_until(lambda: here.says("the new certificates cannot be used, the old ones stay"), "the log says so")
    assert not here.lets_in(bad)


@pytest.mark.parametrize("what", ["out of date", "of another"])
def test_without_a_valid_list_nobody_is_accepted(here: Revoking, what: str) -> None:
    """Whoever keeps a new list from the broker would let revoked certificates in otherwise."""
    good = here.client("good")
    if what == "of another":
        here.put(revoked_list(trustme.CA()))
    else:
        here.put(revoked_list(here.authority, days=0))
    wait_until(lambda: here.reloads() == 1, "the list is read anew")
    assert not here.lets_in(good)


def test_a_start_without_the_list_is_refused(tmp_path: Path) -> None:
    made = Revoking(tmp_path)
    made.crl.unlink()
    with pytest.raises(AssertionError, match=r"kohort\.ssl\.crl\.location=.*No such file"):
        made.broker.start()

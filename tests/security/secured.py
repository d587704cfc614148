"""A broker with TLS in a process of its own, and those who sign its certificates."""

from __future__ import annotations

import datetime
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.interop.broker_process import BrokerProcess

LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
SOON_AFTER = LONG_AGO + datetime.timedelta(days=30)


class Secured:
    """The folder with the certificates, and the broker that uses them."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.trusted = folder / "trusted.pem"
        self.trusted.write_bytes(self.authority.cert_pem.bytes())
        self.certify("first")
        self.broker = BrokerProcess(
            folder,
            f"ssl.keystore.location={folder}/server.pem",
            f"ssl.truststore.location={self.trusted}",
            "kohort.ssl.reload.interval.ms=100",
            "group.initial.rebalance.delay.ms=0",
            *settings,
        )
        self.broker.options = ("--listen", "SSL://127.0.0.1:0")

    @property
    def plain(self) -> str:
        """Where plaintext is spoken."""
        return self.broker.bootstrap.split(",")[0]

    @property
    def bootstrap(self) -> str:
        """Where TLS is spoken."""
        return self.broker.bootstrap.rpartition("SSL://")[2]

    @property
    def address(self) -> tuple[str, int]:
        """Where TLS is spoken, for a bare socket."""
        host, port = self.bootstrap.rsplit(":", 1)
        return host, int(port)

    def certify(self, name: str, *, expired: bool = False) -> None:
        """Give the broker a certificate that bears this name, at once and as a whole."""
        made = self.authority.issue_cert(
            "localhost",
            "127.0.0.1",
            common_name=name,
            not_before=LONG_AGO if expired else None,
            not_after=SOON_AFTER if expired else None,
        )
        (self.folder / "next.pem").write_bytes(made.private_key_and_cert_chain_pem.bytes())
        (self.folder / "next.pem").replace(self.folder / "server.pem")

    def reloads(self) -> int:
        """Return how often the broker has said that it has new certificates."""
        return sum("certificates were reloaded" in line for line in self.broker.log_lines())

    def client(self, name: str, *, expired: bool = False, authority: trustme.CA | None = None) -> Path:
        """Return a file with key and certificates of a client."""
        made = (authority or self.authority).issue_cert(
            f"{name}@example.org",
            common_name=name,
            not_before=LONG_AGO if expired else None,
            not_after=SOON_AFTER if expired else None,
        )
        path = self.folder / f"{name}.pem"
        key = load_pem_private_key(made.private_key_pem.bytes(), None)
        path.write_bytes(  # Java reads keys as PKCS #8 alone.
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + b"".join(each.bytes() for each in made.cert_chain_pems)
        )
        return path

    def shown(self) -> str:
        """Return the name in the certificate that the broker shows now."""
        context = ssl.create_default_context(cafile=str(self.trusted))
        with (
            socket.create_connection(self.address, 60) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            found = secure.getpeercert()
            assert found is not None
            subject = cast("tuple[tuple[tuple[str, str]], ...]", found["subject"])
            return dict(pair for [pair] in subject)["commonName"]


@contextmanager
def secured(folder: Path, *settings: str) -> Iterator[Secured]:
    """Serve within the block."""
    made = Secured(folder, *settings)
    made.broker.start()
    try:
        yield made
    finally:
        made.broker.stop()

"""Where a cluster's metadata are: `etcd://h1:2379,h2:2379/NAME`, read and checked."""

import re
from dataclasses import dataclass
from pathlib import Path

DEFAULT_PORT = 2379
FORM = "etcd://HOST:PORT,HOST:PORT/NAME"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_SCHEMES = {"etcd": "http", "etcds": "https"}


class ClusterAddressError(ValueError):
    """The text names no cluster; the message is one line and says what would be right."""


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """The endpoints of one etcd as URLs, in the order to try them, and the cluster's name in it."""

    endpoints: tuple[str, ...]
    name: str

    @property
    def is_encrypted(self) -> bool:
        """Whether etcd is reached over TLS."""
        return self.endpoints[0].startswith("https:")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials for etcd: a name and a password, a certificate, both or nothing."""

    user: str | None = None
    password: str = ""
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None


def cluster_address(text: str) -> ClusterAddress:
    """Return the cluster that the text names; `etcds://` means TLS. Raises: ClusterAddressError."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in _SCHEMES:
        raise ClusterAddressError(f"{text!r} is not {FORM} (etcds:// for TLS)")
    hosts, _, name = rest.partition("/")
    if "@" in hosts:
        raise ClusterAddressError("a user does not belong into --cluster: set kohort.etcd.user instead")
    if not _NAME.fullmatch(name):
        raise ClusterAddressError(
            f"{text!r} does not end with the cluster's name, as in {FORM}: letters, digits, '.', '_' and '-'"
        )
    endpoints = tuple(f"{_SCHEMES[scheme]}://{_host_and_port(host, text)}" for host in hosts.split(","))
    return ClusterAddress(endpoints, name)


def _host_and_port(text: str, whole: str) -> str:
    """Return HOST:PORT; an IPv6 address is in brackets. Raises: ClusterAddressError."""
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?", text)
    if found is None or int(found[2] or DEFAULT_PORT) not in range(1, 65_536):
        raise ClusterAddressError(f"{text!r} in {whole!r} is not HOST:PORT, such as 127.0.0.1:{DEFAULT_PORT}")
    return f"{found[1]}:{found[2] or DEFAULT_PORT}"

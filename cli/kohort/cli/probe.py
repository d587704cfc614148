"""The first word with a broker: whether somebody who speaks Kafka's protocol listens at an address."""

import socket
import struct
from contextlib import AbstractContextManager

import click

from kohort.cli.client_settings import client_settings, is_encrypted
from kohort.client.config import connection_config
from kohort.client.errors import NetworkError

PROBE_SECONDS = 3.0
CLIENT_ID = b"kohort-cli"
_API_VERSIONS = 18
_CORRELATION_ID = 0x6B6F686F
# ApiVersions 0, which every broker answers: length, key, version, correlation id and client id.
_HELLO = (
    struct.pack(">ihhih", 10 + len(CLIENT_ID), _API_VERSIONS, 0, _CORRELATION_ID, len(CLIENT_ID)) + CLIENT_ID
)
_LENGTH_BYTES, _BEGIN_BYTES = 4, 8  # What is read of an answer: its length and its correlation id.
_TLS_ALERT = b"\x15\x03"


class NotKafkaError(NetworkError):
    """The server at the address does not speak Kafka's protocol."""


def answers_kafka(
    host: str, port: int, *, timeout_seconds: float = PROBE_SECONDS, context: click.Context | None = None
) -> bool:
    """Return whether somebody listens there, who answers a first request in time.

    It speaks by TLS where the settings of the command, or of `context`, say so.
    Raises: OSError where nobody listens, NotKafkaError where what answers is no broker's, KohortError
    where the TLS handshake fails.
    """
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    with socket.create_connection((host, port), timeout_seconds) as connection:
        try:
            if is_encrypted(context):
                begin = _begin_of_answer_by_tls(connection, host, where, context)
            else:
                begin = _begin_of_answer(connection)
        except TimeoutError:
            return False  # It may be busy: who goes on has more patience.
    if not begin:
        return False  # It may be starting, or have no room.
    _check_begin(begin, where)
    return True


def _begin_of_answer(connection: socket.socket) -> bytes:
    """Return the answer's first bytes, fewer or none where the connection is closed before."""
    connection.sendall(_HELLO)
    begin = b""
    while len(begin) < _BEGIN_BYTES and (more := connection.recv(_BEGIN_BYTES - len(begin))):
        begin += more
    return begin


def _begin_of_answer_by_tls(
    connection: socket.socket, host: str, where: str, context: click.Context | None
) -> bytes:
    from kohort.client.security import make_context
    from kohort.client.tls import handshake_problem

    settings = connection_config({"bootstrap_servers": where, **client_settings(context)})
    by_tls = make_context(settings)
    assert by_tls is not None
    if settings.security_protocol.startswith("SASL_"):
        from kohort.client.sasl import Authenticator

        Authenticator(settings)  # A mistake in the settings is told before one of the network.
    try:
        secure: AbstractContextManager[socket.socket] = by_tls.wrap_socket(connection, server_hostname=host)
        with secure as encrypted:
            return _begin_of_answer(encrypted)
    except TimeoutError:
        raise
    except OSError as error:
        raise handshake_problem(error, where) from None


def _check_begin(begin: bytes, where: str) -> None:
    """Return if an answer begins as a broker's does. Raises: NotKafkaError."""
    if begin[:4] == b"HTTP":
        raise NotKafkaError(
            f"{where} is an HTTP address; give the one that `kohort ready` calls kafka=, by default port 9092"
        )
    if begin[:2] == _TLS_ALERT:
        raise NotKafkaError(
            f"{where} speaks TLS: give --command-config FILE with security.protocol=SSL, or SASL_SSL"
        )
    if begin[_LENGTH_BYTES:] != struct.pack(">i", _CORRELATION_ID):
        raise NotKafkaError(f"{where} does not speak Kafka's protocol: its answer begins with {begin!r}")

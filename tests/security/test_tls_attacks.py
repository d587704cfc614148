"""Strangers at a listener that speaks TLS: silent, babbling, slow. An innocent client stands beside them."""

from __future__ import annotations

import os
import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from kohort.broker.transport.tls.test_key_updates import Records, secret_in
from tests.attacks.innocent import Innocent
from tests.security.secured import Secured, secured

WAITED_MS_MAX = 1_000.0
HELD_BYTES_MAX = 32 * 1024 * 1024
GREW_BYTES_MAX = 64 * 1024 * 1024
HALF_OPEN_MAX = 256
SILENT = 700
BABBLING = 600
STRANGERS = 40
RENEWING, NEW_KEYS = 8, 25_000
SEED = 19
PATIENCE_S = 60.0


@contextmanager
def beside_an_innocent_client(folder: Path, record: Callable[[str, object], None]) -> Iterator[Secured]:
    """Judge at the end: whoever did nothing wrong was served in time, and memory has a limit."""
    innocent = Innocent()
    try:
        limit = f"queued.max.request.bytes={HELD_BYTES_MAX}"
        with secured(folder, "ssl.client.auth=requested", limit) as here:
            innocent.visit(here.plain, here.broker.pid)
            before = here.broker.resident_bytes()
            yield here
            report = innocent.report()
            grew = here.broker.peak_resident_bytes() - before
            record("innocent", report.told())
            record("grew_mb", round(grew / 1e6, 1))
            assert report.wrong == []
            assert report.slowest.waited_ms <= WAITED_MS_MAX, report.told()
            assert grew < GREW_BYTES_MAX
            assert here.shown() == "first", "a newcomer is let in"
    finally:
        innocent.kill()


def hello() -> bytes:
    """Return how a client begins."""
    out = ssl.MemoryBIO()
    context = ssl.create_default_context()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    return out.read()


def test_silent_unauthenticated_connections_displace_nobody(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with beside_an_innocent_client(tmp_path, record_property) as here, ExitStack() as held:
        begun = hello()
        for number in range(SILENT):
            stranger = held.enter_context(socket.create_connection(here.address, PATIENCE_S))
            with suppress(OSError):
                stranger.sendall(begun[: number % len(begun)])
            if number % 100 == 0:
                assert here.shown() == "first"
        assert here.broker.open_files() < HALF_OPEN_MAX + 150


def test_damaged_handshakes_close_only_their_connections(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    chance, begun = random.Random(SEED), hello()
    with beside_an_innocent_client(tmp_path, record_property) as here:
        for number in range(BABBLING):
            ruined = bytearray(begun)
            for _ in range(chance.randrange(1, 12)):
                ruined[chance.randrange(len(ruined))] = chance.randrange(256)
            if number % 3 == 0:
                ruined += chance.randbytes(chance.randrange(20_000))
            if number % 5 == 0:
                ruined = bytearray(chance.randbytes(chance.randrange(1, 40_000)))
            with socket.create_connection(here.address, PATIENCE_S) as stranger, suppress(OSError):
                stranger.settimeout(0.02)
                stranger.sendall(ruined)
                stranger.recv(65_536)


def test_clients_that_write_slowly_or_do_not_read_are_limited(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    versions = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
    with beside_an_innocent_client(tmp_path, record_property) as here, ExitStack() as held:
        strangers = []
        for _ in range(STRANGERS):
            plain = socket.create_connection(here.address, PATIENCE_S)
            strangers.append(held.enter_context(context.wrap_socket(plain)))
        for each in strangers:
            each.setblocking(False)
        deadline_s = time.monotonic() + 3
        place, drips = 0, b"\0\0\x10\0" + versions * 99
        while time.monotonic() < deadline_s:
            for number, each in enumerate(strangers):
                with suppress(OSError):
                    # Half of them ask and take no answer; the others send a frame in single bytes.
                    each.send(versions * 500 if number % 2 else drips[place : place + 1])
            place += 1
            time.sleep(0.01)


def test_endless_key_updates_close_only_their_connections(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with beside_an_innocent_client(tmp_path, record_property) as here, ExitStack() as held:
        floods = []
        for number in range(RENEWING):
            secrets = tmp_path / f"secrets-{number}"
            context.keylog_filename = str(secrets)
            plain = held.enter_context(socket.create_connection(here.address, PATIENCE_S))
            stranger = held.enter_context(context.wrap_socket(plain))
            cipher = stranger.cipher()
            assert cipher is not None
            records = Records(cipher[0], secret_in(secrets))
            floods.append((stranger, b"".join(records.update() for _ in range(NEW_KEYS))))
        for stranger, flood in floods:
            with suppress(OSError), socket.socket(fileno=os.dup(stranger.fileno())) as below:
                below.settimeout(PATIENCE_S)
                below.sendall(flood)
        for stranger, _ in floods:
            stranger.settimeout(PATIENCE_S)
            with suppress(ConnectionError, ssl.SSLError):
                assert stranger.recv(1) == b"", "the broker closes it"

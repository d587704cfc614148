"""Strangers at a listener that wants to know who comes; an innocent client stands beside them."""

from __future__ import annotations

import base64
import random
import re
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from kohort.client import Admin
from kohort.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kohort.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.attacks.innocent import Innocent
from tests.interop.waiting import wait_until
from tests.security.guarded import PASSWORD, PLAIN_USERS, USER, Guarded, guarded

WAITED_MS_MAX = 1_000.0
HELD_BYTES_MAX = 32 * 1024 * 1024
GREW_BYTES_MAX = 64 * 1024 * 1024
STRANGERS_MAX = 256
SILENT = 700
BABBLING = 1_500
GUESSING, GUESSING_AT_ONCE = 400, 200
GUESSING_WITHIN_S, PATIENCE_S = 300.0, 60.0
JUDGED = b"Invalid username or password"
LARGE_BYTES = 65_000
SEED = 19
AT = "SASL_PLAINTEXT"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROOFS = {
    "PLAIN": [f"\0{USER}\0{PASSWORD}".encode()],
    "SCRAM-SHA-256": [b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL", b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3,p=AAAA"],
    "SCRAM-SHA-512": [b"n,a=alice,n=alice,r=x,tokenauth=true", b"c=biws,r=x,p=AAAA"],
}  # fmt: skip


@contextmanager
def beside_an_innocent_client(folder: Path, record: Callable[[str, object], None]) -> Iterator[Guarded]:
    """Judge at the end: whoever did nothing wrong was served in time, and memory has a limit."""
    innocent = Innocent()
    settings = (
        f"queued.max.request.bytes={HELD_BYTES_MAX}",
        f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
        f"sasl.jaas.config={PLAIN_USERS}",
    )
    try:
        with guarded(folder, *settings) as here:
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
            comes_in(here)
            assert not any(PASSWORD in line for line in here.broker.log_lines())
    finally:
        innocent.kill()


def comes_in(here: Guarded) -> None:
    with Admin(
        bootstrap_servers=here.at(AT),
        security_protocol=AT,
        sasl_mechanism="PLAIN",
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
    ) as admin:
        admin.list_topics()


def address(here: Guarded) -> tuple[str, int]:
    host, port = here.at(AT).rsplit(":", 1)
    return host, int(port)


def framed(api_key: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", api_key, version, 1, -1) + (b"\0" if (api_key, version) == (36, 2) else b"")
    return struct.pack(">i", len(head) + len(body)) + head + body


def shaken(mechanism: str, version: int = 1) -> bytes:
    return framed(17, version, SaslHandshakeRequest(mechanism=mechanism).encode(version))


def shown(token: bytes, version: int = 1) -> bytes:
    return framed(36, version, SaslAuthenticateRequest(auth_bytes=token).encode(version))


def test_silent_unauthenticated_connections_displace_nobody(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with beside_an_innocent_client(tmp_path, record_property) as here, ExitStack() as held:
        begun = shaken("PLAIN") + shown(b"\0alice\0guess")
        for number in range(SILENT):
            stranger = held.enter_context(socket.create_connection(address(here), PATIENCE_S))
            with suppress(OSError):
                # A fifth of them begin with the largest request that they may, and never end it.
                large = struct.pack(">i", LARGE_BYTES) + b"\0\x24" + b"x" * (LARGE_BYTES - 10)
                stranger.sendall(large if number % 5 == 0 else begun[: number % len(begun)])
            if number % 100 == 0:
                comes_in(here)
        assert here.broker.open_files() < STRANGERS_MAX + 150


def test_damaged_tokens_close_only_their_connections(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(SEED)
    with beside_an_innocent_client(tmp_path, record_property) as here:
        for number in range(BABBLING):
            mechanism = chance.choice(MECHANISMS)
            with socket.create_connection(address(here), PATIENCE_S) as stranger, suppress(OSError):
                stranger.settimeout(0.02)
                version = number % 2
                stranger.sendall(shaken(mechanism, version))
                for token in PROOFS[mechanism]:
                    data = shown(token) if version else struct.pack(">i", len(token)) + token
                    ruined = bytearray(data)
                    for _ in range(chance.randrange(1, 8)):
                        ruined[chance.randrange(4 if number % 9 else 0, len(ruined))] = chance.randrange(256)
                    stranger.sendall(
                        ruined + (chance.randbytes(chance.randrange(500)) if number % 7 == 0 else b"")
                    )
                    stranger.recv(4_096)


def guess(stranger: socket.socket, number: int) -> None:
    """Send a password that is wrong, every other time of a user that there is."""
    user = f"user{number}" if number % 2 else USER
    with suppress(OSError):
        stranger.sendall(shaken("PLAIN") + shown(f"\0{user}\0guess{number}".encode()))


def failures_are(here: Guarded, count: float) -> bool:
    return here.metric("kohort_sasl_authentications_failed_total") >= count


def told(stranger: socket.socket) -> bytes:
    """Return all that a stranger is told until its connection is closed."""
    answer = b""
    with suppress(ConnectionError):
        while more := stranger.recv(4_096):
            answer += more
    return answer


def test_a_guessing_client_waits_and_learns_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """On a machine that stands still a stranger's time may be over before it is judged: it guesses again."""
    with beside_an_innocent_client(tmp_path, record_property) as here:
        before = here.metric("kohort_sasl_authentications_failed_total")
        answers: list[bytes] = []
        number, deadline_s = 0, time.monotonic() + GUESSING_WITHIN_S
        while len(answers) < GUESSING:
            assert time.monotonic() < deadline_s, "nobody judges them"
            with ExitStack() as held:
                strangers = []
                for _ in range(GUESSING_AT_ONCE):
                    strangers.append(held.enter_context(socket.create_connection(address(here), PATIENCE_S)))
                    guess(strangers[-1], number)
                    number += 1
                answers += [answer for each in strangers if JUDGED in (answer := told(each))]
        assert len(set(answers)) == 1, "whether there is such a user or not"
        wait_until(partial(failures_are, here, before + len(answers)), "all are counted", PATIENCE_S)
        assert here.metric("kohort_sasl_authentications_total") == 0


def first_answer(here: Guarded, user: str) -> tuple[bytes, bytes]:
    """Return what a stranger is told of a user's password: the salt, and the iterations."""
    with socket.create_connection(address(here), PATIENCE_S) as stranger:
        stranger.settimeout(20)
        stranger.sendall(shaken("SCRAM-SHA-512") + shown(f"n,,n={user},r=nonce".encode()))
        answer = b""
        while (found := re.search(rb"r=nonce[0-9a-f]+,s=([A-Za-z0-9+/=]+),i=(\d+)", answer)) is None:
            more = stranger.recv(4_096)
            assert more
            answer += more
        return base64.b64decode(found[1]), found[2]


def test_user_names_cannot_be_discovered(tmp_path: Path) -> None:
    settings = (
        "sasl.enabled.mechanisms=SCRAM-SHA-512",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config="
        'org.apache.kafka.common.security.scram.ScramLoginModule required user_bob="bob-secret";',
    )
    with guarded(tmp_path, *settings) as here:
        with Admin(bootstrap_servers=here.plain) as admin:
            admin.set_user_password(USER, PASSWORD)
        for user in (USER, "bob", *(f"nobody{number}" for number in range(30))):
            salt, iterations = first_answer(here, user)
            assert salt.isalnum(), user
            assert iterations == b"4096", user
            assert 23 <= len(salt) <= 26, user


@pytest.mark.parametrize("workers", [1, 2])
def test_salts_of_unknown_users_are_as_stable_as_those_of_users(tmp_path: Path, workers: int) -> None:
    """From worker to worker, over a restart, and whether a user stands in the settings or nowhere."""
    settings = [
        f"kohort.workers={workers}",
        "sasl.enabled.mechanisms=SCRAM-SHA-512",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config="
        'org.apache.kafka.common.security.scram.ScramLoginModule required user_bob="bob-secret";',
    ]
    with guarded(tmp_path, *settings) as here:
        with Admin(bootstrap_servers=here.plain) as admin:
            admin.set_user_password(USER, PASSWORD)
        salts = {user: first_answer(here, user)[0] for user in (USER, "bob", "nobody")}
        for how in (signal.SIGTERM, signal.SIGKILL):
            for user, salt in salts.items():
                assert {first_answer(here, user)[0] for _ in range(20)} == {salt}, user
            here.broker.stop(how)
            here.broker.bootstrap = "127.0.0.1:0"
            here.broker.start()
        with Admin(bootstrap_servers=here.plain) as admin:
            assert set(admin.describe_users()) == {USER}

"""Strangers in such numbers that there is no room: who means to log in does, super users too."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.security.guarded import PASSWORD, PLAIN_USERS, USER, guarded
from tests.security.test_sasl_attacks import address, shaken, shown

FLOOD_PER_SECOND = 1_000
LOGINS = 24
ROUND_TRIP_S = 0.15
"""Of a client at the other end of the world."""
PLAIN_SETTINGS = ("sasl.enabled.mechanisms=PLAIN", f"sasl.jaas.config={PLAIN_USERS}")
PATIENCE_S = 20.0


def addresses() -> Iterator[str]:
    """Yield addresses of this machine, each another."""
    for number in itertools.count(1):
        yield f"127.{1 + number // 62_500 % 250}.{number // 250 % 250}.{1 + number % 250}"


@contextmanager
def flood(target: tuple[str, int]) -> Iterator[None]:
    """Connect so often a second, each time from another address, and say nothing, within the block."""
    is_over = threading.Event()

    def come() -> None:
        held: list[socket.socket] = []
        began_s, froms = time.monotonic(), addresses()
        for number in itertools.count():
            if is_over.wait(max(0.0, began_s + number / FLOOD_PER_SECOND - time.monotonic())):
                break
            stranger = socket.socket()
            stranger.setblocking(False)
            with suppress(OSError):
                stranger.bind((next(froms), 0))
                stranger.connect(target)
            held.append(stranger)
            if len(held) > 600:
                held.pop(0).close()
        for each in held:
            each.close()

    with ThreadPoolExecutor(1) as threads:
        coming = threads.submit(come)
        try:
            time.sleep(0.5)
            yield
        finally:
            is_over.set()
        coming.result()


def answer_of(client: socket.socket) -> bytes:
    """Return the next answer. Raises: OSError where there is none."""
    head = client.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        raise ConnectionResetError("closed")
    return client.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)


def logs_in(target: tuple[str, int], user: str = USER, password: str = PASSWORD) -> bool:
    """Log in over a slow way; return whether that was let."""
    with socket.socket() as client, suppress(OSError):
        client.settimeout(PATIENCE_S)
        client.connect(target)
        for words in (shaken("PLAIN"), shown(f"\0{user}\0{password}".encode())):
            time.sleep(ROUND_TRIP_S)
            client.sendall(words)
            answer = answer_of(client)
        return answer[4:6] == b"\0\0"
    return False


def test_who_connects_from_everywhere_and_says_nothing_keeps_few_logins_out(tmp_path: Path) -> None:
    with guarded(tmp_path, *PLAIN_SETTINGS) as here, flood(address(here)), ThreadPoolExecutor(4) as threads:
        came = sum(threads.map(lambda _: logs_in(address(here)), range(LOGINS)))
    # Two in five lose their place before their first word has come; with the oldest first none came in.
    assert came >= LOGINS // 3, came

"""Ports of servers that have to know theirs before they start."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

PORTS = range(20_000, 32_000)
"""Below the ports that Linux gives to connections and to servers on port 0: these cannot take one away."""
FOLDER = Path(tempfile.gettempdir()) / f"kohort-test-ports-{os.getuid()}"

_locks: list[int] = []
_random = random.SystemRandom()


def free_port() -> int:
    """Return a port that nobody listens on. No other process of tests gets it while this one lives."""
    FOLDER.mkdir(exist_ok=True)
    for port in _random.sample(PORTS, len(PORTS)):
        lock = os.open(FOLDER / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if _is_locked_here(lock) and _can_listen(port):
            _locks.append(lock)
            return port
        os.close(lock)
    raise AssertionError("no port is free")


def _is_locked_here(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _can_listen(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True

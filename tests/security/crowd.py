"""A crowd of strangers, in a process of its own: they come so many a second, say half a word, and stay.

    python -m tests.security.crowd COUNT PER_SECOND PLAIN_PORT TLS_PORT

Half of them come to the listener in the clear, half to that with TLS. It prints `here` when all have come,
and goes when its standard input closes.
"""

from __future__ import annotations

import os
import resource
import socket
import sys
import time
from contextlib import suppress

from tests.security.test_sasl_attacks import LARGE_BYTES, shaken, shown
from tests.security.test_tls_attacks import hello


def begun(number: int, greeting: bytes) -> bytes:
    """Return what one says: nothing, some of the right words, or much that never ends."""
    words = shaken("SCRAM-SHA-512") + shown(b"n,,n=alice,r=abc")
    if number % 2:
        return greeting[: number % len(greeting)]
    if number % 10 == 0:
        return LARGE_BYTES.to_bytes(4, "big") + b"\0\x24" + b"x" * 40_000
    return words[: number % len(words)]


def main() -> None:
    """Come, stay, and go."""
    count, per_second, *ports = map(int, sys.argv[1:])
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    os.nice(10)
    greeting, came = hello(), []
    began_s = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, began_s + number / per_second - time.monotonic()))
        stranger = socket.socket()
        stranger.setblocking(False)
        with suppress(BlockingIOError):
            stranger.connect(("127.0.0.1", ports[number % 2]))
        came.append(stranger)
        if number >= 10:  # By now it is connected.
            with suppress(OSError):
                came[number - 10].send(begun(number - 10, greeting))
    sys.stdout.write("here\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()

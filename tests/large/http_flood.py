"""Asks a broker for its pages from many threads until standard input ends, and prints how often.

python -m tests.large.http_flood HOST:PORT PATH...
"""

from __future__ import annotations

import http.client
import sys
import threading

THREADS = 8


def flood(address: str, paths: list[str], number: int, asked: list[int], ended: threading.Event) -> None:
    """Ask again and again, a connection for each."""
    host, port = address.rsplit(":", 1)
    while not ended.is_set():
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        connection.request("GET", paths[(number + asked[number]) % len(paths)])
        connection.getresponse().read()
        connection.close()
        asked[number] += 1


def main() -> None:
    """Flood."""
    address, *paths = sys.argv[1:]
    asked, ended = [0] * THREADS, threading.Event()
    threads = [
        threading.Thread(target=flood, args=(address, paths, number, asked, ended))
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    sys.stdout.write("flooding\n")
    sys.stdout.flush()
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()
    sys.stdout.write(f"{sum(asked)}\n")


if __name__ == "__main__":
    main()

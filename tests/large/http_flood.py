"""Asks a broker for its pages from many threads while it is told to, and prints how often at the end.

python -m tests.large.http_flood HOST:PORT PATH...

A line `flood` on standard input begins it, `rest` holds it up; each is answered by the same word once it
is so. The end of standard input ends it.
"""

from __future__ import annotations

import http.client
import sys
import threading

THREADS = 8


class Flood:
    """Threads that ask, while they may."""

    def __init__(self, address: str, paths: list[str]) -> None:
        host, port = address.rsplit(":", 1)
        self._address = host, int(port)
        self._paths = paths
        self._changed = threading.Condition()
        self._is_wanted = self._is_ended = False
        self._asking = 0
        self.asked = 0
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def begin(self) -> None:
        """Return once every thread asks."""
        with self._changed:
            self._is_wanted = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._asking == THREADS)

    def rest(self) -> None:
        """Return once nobody asks any more."""
        with self._changed:
            self._is_wanted = False
            self._changed.wait_for(lambda: self._asking == 0)

    def end(self) -> None:
        """Return once every thread has ended."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_wanted or self._is_ended)
                if self._is_ended:
                    return
                self._asking += 1
                self._changed.notify_all()
            while self._is_wanted and not self._is_ended:
                self._ask(self._paths[number % len(self._paths)])
                number += 1
            with self._changed:
                self._asking -= 1
                self._changed.notify_all()

    def _ask(self, path: str) -> None:
        """Ask once, on a connection of its own."""
        connection = http.client.HTTPConnection(*self._address, timeout=60)
        connection.request("GET", path)
        connection.getresponse().read()
        connection.close()
        with self._changed:
            self.asked += 1


def main() -> None:
    """Do what standard input says."""
    address, *paths = sys.argv[1:]
    flood = Flood(address, paths)
    for line in sys.stdin:
        if line.strip() == "flood":
            flood.begin()
        else:
            flood.rest()
        sys.stdout.write(line)
        sys.stdout.flush()
    flood.end()
    sys.stdout.write(f"{flood.asked}\n")


if __name__ == "__main__":
    main()

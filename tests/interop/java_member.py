"""A member of a group that is Kafka's own Java consumer, in a process of its own."""

from __future__ import annotations

import subprocess
import threading

from tests.interop.clients import Changes, Incoming, Place
from tests.interop.kafka_tools import java_command

CONSUMER_PROTOCOL = "consumer"
"""As a strategy: the group's protocol is KIP-848's, and the broker assigns."""
ASSIGNORS = {
    CONSUMER_PROTOCOL: CONSUMER_PROTOCOL,
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
CLOSE_TIMEOUT_S = 30


class JavaMember:
    """Looks like a `Member`. Raises: MissingTool where there is no Java or no Maven."""

    name = "java"

    def __init__(
        self, bootstrap: str, group: str, topic: str, *, strategy: str, session_timeout_ms: int
    ) -> None:
        self.records: list[Incoming] = []
        self.changes = Changes()
        self.assignment: frozenset[Place] = frozenset()
        self._topic = topic
        self._at_s = 0.0  # Of what it tells next: its clock is the system's monotonic one.
        self._closed = False
        command = java_command(
            "clients", "Member", bootstrap, group, topic, ASSIGNORS[strategy], str(session_timeout_ms)
        )
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Let it close its consumer, and return when it has ended. Raises: AssertionError if it failed."""
        if self._process.stdin is None or self._process.stdin.closed:
            return
        self._process.stdin.close()
        try:
            status = self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        self._reader.join()
        assert self._process.stderr is not None
        assert self._process.stdout is not None
        problems = self._process.stderr.read()
        self._process.stdout.close()
        self._process.stderr.close()
        assert (status, self._closed) == (0, True), problems
        self.assignment = frozenset()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, *words = line.rstrip("\n").split(" ")
            if what == "record":
                where = Place(self._topic, int(words[0]))
                self.records.append(Incoming(where, int(words[1]), None, words[2].encode(), (), -1))
            elif what == "closed":
                self._closed = True
            elif what == "at":
                self._at_s = int(words[0]) / 1e9
            else:
                self._noted(what, frozenset(Place(self._topic, int(each)) for each in words))

    def _noted(self, what: str, places: frozenset[Place]) -> None:
        if what == "owns":
            self.assignment = places
        elif what == "assigned":
            self.changes.note_assigned(places, self._at_s)
        else:
            self.changes.note_revoked(places, self._at_s)

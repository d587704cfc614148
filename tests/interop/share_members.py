"""Members of share groups in processes of their own: Kafka's, librdkafka's, franz-go's and kohort's."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # Its home says otherwise.
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from tests.interop.go_programs import go_program
from tests.interop.kafka_tools import java_command
from tests.interop.waiting import wait_until

CLOSE_TIMEOUT_S = 30


class Delivery(NamedTuple):
    """A record as a member was handed it."""

    partition: int
    offset: int
    deliveries: int
    value: str


class ShareMember:
    """A process that prints what it is handed, as `java/ShareMember.java` does."""

    def __init__(self, command: Sequence[str]) -> None:
        self.deliveries: list[Delivery] = []
        self.acknowledged = 0
        self.failures: list[str] = []
        self.has_subscribed = False
        self.has_closed = False
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._errors: list[str] = []
        self._drain = threading.Thread(target=self._read_errors, daemon=True)
        self._drain.start()

    @property
    def values(self) -> list[str]:
        """What it was handed, in that order."""
        return [each.value for each in list(self.deliveries)]

    @property
    def counts(self) -> Counter[str]:
        """How often it was handed each value."""
        return Counter(self.values)

    def close(self) -> None:
        """Let it close its consumer, and return when it has ended. Raises: AssertionError if it failed."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            status = self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        self._join()
        assert (status, self.has_closed) == (0, True), "".join(self._errors[-20:])

    def kill(self) -> None:
        """Kill it, whatever it does, and return when it has gone."""
        self._process.kill()
        self._process.wait()
        self._join()

    def _join(self) -> None:
        self._reader.join()
        self._drain.join()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, *words = line.rstrip("\n").split(" ", 4)
            if what == "record":
                self.deliveries.append(Delivery(int(words[0]), int(words[1]), int(words[2]), words[3]))
            elif what == "acknowledged":
                self.acknowledged += int(words[0])
            elif what == "failed":
                self.failures.append(" ".join(words))
            elif what == "subscribed":
                self.has_subscribed = True
            elif what == "closed":
                self.has_closed = True

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.extend(self._process.stderr)


def java_share_member(
    bootstrap: str, group: str, topic: str, mode: str = "implicit", *settings: str
) -> ShareMember:
    """Return a member that is Kafka's own. Raises: MissingTool where there is no Java or no Maven."""
    return ShareMember(java_command("clients", "ShareMember", bootstrap, group, topic, mode, *settings))


def python_share_member(bootstrap: str, group: str, topic: str) -> ShareMember:
    """Return a member that is confluent-kafka's, which acknowledges what it has been handed before."""
    module = "tests.interop.librdkafka_share_member"
    return ShareMember([sys.executable, "-m", module, bootstrap, group, topic])


def go_share_member(bootstrap: str, group: str, topic: str, mode: str = "implicit") -> ShareMember:
    """Return a member that is franz-go's. Raises: MissingTool where there is no Go."""
    return ShareMember([str(go_program("share_member")), bootstrap, group, topic, mode])


def kohort_share_member(bootstrap: str, group: str, topic: str, mode: str = "implicit") -> ShareMember:
    """Return a member that is kohort's own."""
    module = "tests.interop.kohort_share_member"
    return ShareMember([sys.executable, "-m", module, bootstrap, group, topic, mode])


def configure(bootstrap: str, group: str, **settings: str) -> None:
    """Set a group's settings, with underscores; it begins at the start of partitions by default."""
    values = {"share_auto_offset_reset": "earliest", **settings}
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in values.items()
    ]
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(15)


def produce(bootstrap: str, topic: str, values: Sequence[str]) -> None:
    """Write these, and return once they are acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value.encode())
    assert not producer.flush(30)


def wait_for(*members: ShareMember, values: Sequence[str], timeout_s: float = 30.0) -> None:
    """Return once all values have been handed to somebody."""
    wanted = set(values)
    wait_until(
        lambda: wanted <= {value for each in members for value in each.values}, "all values", timeout_s
    )

"""Kafka's own producer and consumer in one JVM, with settings by which they say who they are."""

from __future__ import annotations

import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.interop.kafka_tools import java_command

COUNT = 20
VALUES = [str(number) for number in range(COUNT)]


class Refused(Exception):
    """What Java's client says of a broker that does not take it, or that it does not take."""


class JavaClient:
    """A process that writes and reads with other settings each time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            java_command("clients", "GuardedClient"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def written_and_read(self, topic: str, settings: Mapping[str, object]) -> list[str]:
        """Return what it reads of the twenty values that it has written. Raises: Refused."""
        file = self._folder / f"{uuid.uuid4().hex}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{topic} {COUNT} {file}\n")
        self._process.stdin.flush()
        what, _, words = self._process.stdout.readline().rstrip("\n").partition(" ")
        if what != "read":
            raise Refused(words)
        return words.split(",")

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@contextmanager
def java_client() -> Iterator[JavaClient]:
    """Have one meanwhile. Raises: MissingTool where there is no Java or no Maven."""
    with tempfile.TemporaryDirectory() as folder:
        client = JavaClient(Path(folder))
        try:
            yield client
        finally:
            client.close()

"""Applications of Kafka Streams as processes: started, closed and killed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.interop.kafka_tools import java_command
from tests.interop.waiting import wait_until

PATIENCE_S = 120.0
SETTINGS = (
    "group.streams.session.timeout.ms=6000",
    "group.streams.min.session.timeout.ms=6000",
    "group.streams.heartbeat.interval.ms=500",
    "group.streams.min.heartbeat.interval.ms=500",
    "group.streams.initial.rebalance.delay.ms=200",
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
)
"""What lets a broker put dead members out soon."""


class StreamsApplication:
    """One process of `StreamsApplication.java`; its folder keeps its state over its deaths."""

    def __init__(self, bootstrap: str, group: str, folder: Path, *what: str) -> None:
        """`what` is its kind, its topics, and settings besides. Raises: MissingTool."""
        folder.mkdir(exist_ok=True)
        self._command = java_command(
            "streams", "StreamsApplication", bootstrap, group, str(folder / "state"), *what
        )
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def states(self) -> list[str]:
        """The states that it has come to in this life."""
        text = self._log.read_text()
        return text.rsplit("--\n", 1)[-1].split()

    def start(self) -> None:
        with self._log.open("ab") as log:
            log.write(b"--\n")
            log.flush()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.DEVNULL
            )

    def wait_for(self, state: str) -> None:
        """Return when it has come to that state in this life."""
        wait_until(lambda: state in self.states, f"{state}, after {self.states}", PATIENCE_S)

    def close(self) -> None:
        """Tell it to end, and return when it has: its members leave their group."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        assert self._process.wait(PATIENCE_S) == 0

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()

"""A broker of one's own, as a process that can be killed and come back."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

SERVE = (sys.executable, "-m", "kohort.broker")
BOUNDS = (
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.share.min.session.timeout.ms=1000",
    "group.share.min.heartbeat.interval.ms=100",
)
"""How quick the groups of the demo may be: it does not want to wait until a member counts as dead."""
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0
_READY = re.compile(r"^kohort ready kafka=(?P<kafka>\S+) http=(?P<http>\S+)")


class BrokerProcess:
    """`kohort serve` on one data folder. Started again, it listens where it did before."""

    def __init__(self, folder: Path, command: Sequence[str] = SERVE) -> None:
        self._command = tuple(command)
        self._data = folder / "data"
        self.log_path = folder / "broker.log"
        self.bootstrap = "127.0.0.1:0"
        self.http = "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Return when it says that it is ready.

        Raises: RuntimeError if it ends, or stays silent, instead.
        """
        where = ["--listen", self.bootstrap, "--http", self.http, "--data", str(self._data)]
        bounds = [word for each in BOUNDS for word in ("--set", each)]
        with self.log_path.open("a") as log:
            self._process = subprocess.Popen(
                [*self._command, *where, *bounds], stdout=subprocess.PIPE, stderr=log, text=True
            )
        silence = threading.Timer(START_TIMEOUT_S, self._process.kill)
        silence.start()
        try:
            line = self._process.stdout.readline() if self._process.stdout else ""
        finally:
            silence.cancel()
        ready = _READY.match(line)
        if ready is None:
            tail = self.log_path.read_text().splitlines()[-5:]
            raise RuntimeError("the broker did not start: " + "\n".join(tail))
        self.bootstrap, self.http = ready["kafka"], ready["http"]

    def kill(self) -> None:
        """Kill it with SIGKILL and return when it is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to stop, insist if it does not, and return when it is gone."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()

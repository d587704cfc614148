"""A broker in a process of its own, as its users run it: killed, restarted and measured from outside."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

COMMAND_VARIABLE = "KOHORT_TEST_COMMAND"
"""What serves instead of `python -m kohort.broker`: anything that takes its options and prints its line."""
START_TIMEOUT_S = 120.0
"""A start takes 0.3 s of a processor: 40 s have been seen where 70 processes wanted two processors."""
STOP_TIMEOUT_S = 60.0
_READY = re.compile(r"^kohort ready kafka=(?P<kafka>\S+) http=(?P<http>\S+) data=(?P<data>.+)$")


class BrokerProcess:
    """`kohort serve` on a data folder of its own; started again, it keeps its ports and its data."""

    start_timeout_s = START_TIMEOUT_S
    stop_timeout_s = STOP_TIMEOUT_S

    def __init__(self, folder: Path, *settings: str) -> None:
        self.data = folder / "data"
        self.log_path = folder / "broker.log"
        self.bootstrap = "127.0.0.1:0"
        self.http = "127.0.0.1:0"
        self.options: tuple[str, ...] = ()
        """More of the command line."""
        self.settings = settings
        """For the next process that is started."""
        self.command = os.environ.get(COMMAND_VARIABLE, f"{sys.executable} -m kohort.broker")
        """What serves: the next process may be another version of kohort."""
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The process that serves."""
        assert self._process is not None
        return self._process.pid

    @property
    def address(self) -> tuple[str, int]:
        """Where Kafka clients connect, for a bare socket."""
        host, port = self.bootstrap.rsplit(":", 1)
        return host, int(port)

    def start(self) -> None:
        """Return when it has said that it is ready.

        Raises: AssertionError with its last log lines if it ends, or stays silent, instead.
        """
        self._process = self._launch()
        ready = _READY.match(self._first_line(self._process))
        assert ready, "the broker did not start:\n" + "\n".join(self.log_lines()[-10:])
        self.bootstrap, self.http = ready["kafka"], ready["http"]

    def start_and_kill(self, after_s: float) -> None:
        """Start it, and kill it so much later, wherever it has come to by then."""
        self._process = self._launch()
        time.sleep(after_s)
        self._end(signal.SIGKILL)

    def _launch(self) -> subprocess.Popen[str]:
        command = shlex.split(self.command)
        command += ["--listen", self.bootstrap, "--http", self.http, "--data", str(self.data)]
        command += self.options
        for setting in self.settings:
            command += ["--set", setting]
        with self.log_path.open("a") as log:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; return its exit status."""
        return self._end(how)

    def kill(self) -> None:
        """Kill it with SIGKILL and return when it is gone."""
        self._end(signal.SIGKILL)

    def restart(self, how: signal.Signals) -> None:
        """End it with this signal and start it again."""
        self._end(how)
        self.start()

    def is_running(self) -> bool:
        """Whether the process is still there."""
        return self._process is not None and self._process.poll() is None

    def resident_bytes(self) -> int:
        """Return the memory that it occupies (VmRSS)."""
        return self._status_kilobytes("VmRSS") * 1024

    def peak_resident_bytes(self) -> int:
        """Return the most memory that it has ever occupied (VmHWM)."""
        return self._status_kilobytes("VmHWM") * 1024

    def open_files(self) -> int:
        """Return how many file descriptors it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def log_lines(self) -> list[str]:
        """Return what it has written to standard error."""
        return self.log_path.read_text(errors="replace").splitlines()

    def _status_kilobytes(self, name: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise KeyError(name)

    def _first_line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        silence = threading.Timer(self.start_timeout_s, process.kill)
        silence.start()
        try:
            return process.stdout.readline().rstrip("\n")
        finally:
            silence.cancel()

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(how)
        try:
            return process.wait(self.stop_timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()

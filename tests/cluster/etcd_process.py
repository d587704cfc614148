"""An etcd of a test's own: one member in a folder, which can be killed, paused and started again."""

import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

START_SECONDS_MAX = 30.0


def free_port() -> int:
    """Return a port that nobody listened at a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class EtcdProcess:
    """One member; its ports and its data are the same at every start."""

    def __init__(self, program: Path, folder: Path, *options: str, scheme: str = "http") -> None:
        self._program = program
        self._folder = folder
        self._options = options
        self.port = free_port()
        self._peer = f"http://127.0.0.1:{free_port()}"
        self._metrics = f"http://127.0.0.1:{free_port()}"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return once it serves. Raises: AssertionError with its last log lines if it does not."""
        command: Sequence[str] = (
            str(self._program), "--name", "a", "--data-dir", str(self._folder / "etcd"),
            "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", self._peer, "--initial-advertise-peer-urls", self._peer,
            "--initial-cluster", f"a={self._peer}", "--listen-metrics-urls", self._metrics,
            "--unsafe-no-fsync", *self._options,
        )  # fmt: skip
        with (self._folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._is_healthy():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("etcd did not start:\n" + "\n".join(self.log_lines()[-10:]))
            time.sleep(0.05)

    def _is_healthy(self) -> bool:
        try:
            with urlopen(f"{self._metrics}/health", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def log_lines(self) -> list[str]:
        """Return what it has written."""
        return (self._folder / "etcd.log").read_text(errors="replace").splitlines()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, such as SIGSTOP."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it, and return when it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

"""An etcd of a test's own: members in folders, which can be killed, paused and started again."""

import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

from tests.ports import free_port

START_SECONDS_MAX = 30.0


class EtcdProcess:
    """One member; its ports and its data are the same at every start."""

    def __init__(
        self, program: Path, folder: Path, *options: str, scheme: str = "http", name: str = "a"
    ) -> None:
        self._name = name
        self._program = program
        self._folder = folder
        self._options = options
        self.port = free_port()
        self.peer = f"http://127.0.0.1:{free_port()}"
        self.members = f"{name}={self.peer}"
        """Who is to be one etcd with this one."""
        self._metrics = f"http://127.0.0.1:{free_port()}"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return once it serves. Raises: AssertionError with its last log lines if it does not."""
        self.launch()
        self.wait()

    @property
    def endpoints(self) -> str:
        """Where clients connect, as `--cluster` takes it."""
        return f"127.0.0.1:{self.port}"

    def launch(self) -> None:
        """Begin to run."""
        command: Sequence[str] = (
            str(self._program), "--name", self._name, "--data-dir", str(self._folder / "etcd"),
            "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer,
            "--initial-cluster", self.members, "--listen-metrics-urls", self._metrics,
            "--unsafe-no-fsync", *self._options,
        )  # fmt: skip
        with (self._folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def wait(self) -> None:
        """Return once it serves. Raises: AssertionError with its last log lines if it does not."""
        assert self._process is not None
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


class EtcdMembers:
    """Three of them that are one etcd, each in a folder of its own."""

    def __init__(self, program: Path, folder: Path, *options: str) -> None:
        self.members: list[EtcdProcess] = []
        for name in "abc":
            (folder / name).mkdir()
            self.members.append(EtcdProcess(program, folder / name, *options, name=name))
        together = ",".join(each.members for each in self.members)
        for each in self.members:
            each.members = together

    @property
    def endpoints(self) -> str:
        """Where clients connect, as `--cluster` takes it."""
        return ",".join(each.endpoints for each in self.members)

    def start(self) -> None:
        """Return once all of them serve. Raises: AssertionError with the log of one that does not."""
        for each in self.members:
            each.launch()
        for each in self.members:
            each.wait()

    def kill(self) -> None:
        """Kill them all, and return when they are gone."""
        for each in self.members:
            each.kill()

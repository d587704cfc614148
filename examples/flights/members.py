"""The three members, each a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

LEAVE_TIMEOUT_S = 10.0
ROOT = Path(__file__).resolve().parents[2]


class MemberProcess:
    """One member of the group in its own process, its standard error in a file."""

    def __init__(self, client: str, bootstrap: str, folder: Path) -> None:
        self.client = client
        self.killed = False
        self._log_path = folder / f"{client}.log"
        command = [sys.executable, "-m", "examples.flights.member", client, bootstrap, str(folder)]
        with self._log_path.open("w") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def kill(self) -> None:
        """Kill it with SIGKILL: it neither commits nor leaves its group."""
        self.killed = True
        self._process.kill()
        self._process.wait()

    def check(self) -> None:
        """Raise RuntimeError with its last words if it ended by itself."""
        if not self.killed and self._process.poll() is not None:
            tail = "\n".join(self._log_path.read_text().splitlines()[-5:])
            raise RuntimeError(f"{self.client} ended with {self._process.returncode}: {tail}")

    def ask_to_leave(self) -> None:
        """Send SIGTERM: it closes its consumer, which leaves the group."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def wait_until_gone(self) -> None:
        """Return when the process is gone, which is seen to if need be."""
        try:
            self._process.wait(LEAVE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

"""`kohort observe` in a process of its own, and what it answers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.interop.waiting import wait_until

COMMAND = [sys.executable, "-m", "kohort.cli"]
READY = "kohort observe ready http="


class ObserverProcess:
    """Observes the cluster at `bootstrap`; started again, it has its store still.

    Several clusters are NAME=ADDRESS with a space between them.
    """

    def __init__(self, bootstrap: str, folder: Path, *options: str) -> None:
        self._bootstrap = bootstrap
        self._store = folder / "observe.db"
        self._log = folder / "observe.log"
        self._options = options
        self._process: subprocess.Popen[str] | None = None
        self.http = ""

    def start(self) -> None:
        """Return when it serves HTTP."""
        command = [*COMMAND, "observe", "--http", "127.0.0.1:0"]
        if "=" in self._bootstrap:
            command += [word for each in self._bootstrap.split() for word in ("--cluster", each)]
        else:
            command += ["--bootstrap-server", self._bootstrap]
        command += [
            "--store",
            str(self._store),
            "--interval",
            "1",
            "--calls-per-second",
            "50",
            *self._options,
        ]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith(READY), self._log.read_text()
        self.http = line.removeprefix(READY).split()[0]

    def stop(self) -> int:
        """Ask it to end; return its exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it at once."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(how)
        status = process.wait(20)
        assert process.stdout is not None
        process.stdout.close()
        return status

    def page(self, path: str) -> str:
        """Return a page. Raises: urllib.error.HTTPError."""
        with urllib.request.urlopen(f"http://{self.http}{path}", timeout=10) as answer:
            body: bytes = answer.read()
            return body.decode()

    def group(self, group_id: str) -> dict[str, Any]:
        """Return what it knows of a group."""
        found: dict[str, Any] = json.loads(self.page(f"/api/v1/groups/{group_id}"))
        return found

    def explanations(self, group_id: str) -> list[dict[str, Any]]:
        """Return what it says happened to a group, the oldest first; nothing for an unknown group."""
        try:
            found: list[dict[str, Any]] = self.group(group_id)["observed"]
        except urllib.error.HTTPError as error:
            if error.code not in {404, 503}:
                raise
            return []
        return found

    def kinds(self, group_id: str) -> list[str]:
        """Return the first finding of each explanation."""
        return [each["findings"][0]["kind"] for each in self.explanations(group_id)]

    def changes(self, group_id: str) -> int:
        """Return how many generations it has seen, and how many it knows to have left no record."""
        return sum(
            each["changes"] + sum(int(note.split()[0]) for note in each["notes"])
            for each in self.explanations(group_id)
        )

    def wait_for(self, group_id: str, kind: str, within_s: float = 30.0) -> dict[str, Any]:
        """Return the newest explanation once its first finding is of that kind."""

        def is_there() -> bool:
            return self.kinds(group_id)[-1:] == [kind]

        try:
            wait_until(is_there, f"{group_id}: {kind}", within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; it says {self.kinds(group_id)}") from None
        return self.explanations(group_id)[-1]

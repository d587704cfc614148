"""Spark's own standalone cluster: a master and workers as processes, each with a folder of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from kohort.pipeline.java import java_for_spark
from tests.interop.waiting import wait_until

HOST = "127.0.0.1"
MEMORY = "512m"
START_TIMEOUT_S = 90.0
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"
SPARK_HOME = Path(pyspark.__file__).parent


class Standalone:
    """A context manager: a master, and workers with one core each; `users` are whose processes these are."""

    def __init__(self, folder: Path, workers: int = 2, users: Sequence[str] = ()) -> None:
        self._folder = folder
        self._workers = workers
        self._users = users
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def __enter__(self) -> Self:
        try:
            self._start("master", "master.Master", "--host", HOST, "--port", "0", "--webui-port", "0")
            self.master = self._said("master", _MASTER)
            for number in range(self._workers):
                name = f"worker-{number}"
                options = ["--host", HOST, "--webui-port", "0", "--cores", "1", "--memory", MEMORY]
                options += ["--work-dir", str(self.home(name)), self.master]
                user = self._users[number] if self._users else None
                self._start(name, "worker.Worker", *options, user=user)
            for number in range(self._workers):
                self._said(f"worker-{number}", re.compile(f"({_REGISTERED})"))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all of them, and the executors that they have started."""
        for each in reversed(self._processes):
            if each.poll() is None:
                os.killpg(each.pid, signal.SIGTERM)
        for each in reversed(self._processes):
            try:
                each.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(each.pid, signal.SIGKILL)
                each.wait()

    def home(self, name: str) -> Path:
        """Return the folder in which a process lives."""
        return self._folder / name

    def executors(self) -> list[Path]:
        """Return the folders of the executors that ran, each in its worker's."""
        return sorted(self._folder.glob("worker-*/app-*/[0-9]*"))

    def _start(self, name: str, what: str, *options: str, user: str | None = None) -> None:
        home = self.home(name)
        home.mkdir(parents=True)
        own: dict[str, str] = {}
        if user is not None:
            shutil.chown(home, user, user)
            home.chmod(0o700)
            own = {"HOME": str(home), "USER": user, "LOGNAME": user, "SPARK_LOCAL_DIRS": str(home)}
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *options]
        with (home / "log").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=home,
                env=environment(own),
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=user,
                group=user,
                extra_groups=None if user is None else (),
                umask=-1 if user is None else 0,
            )
        self._processes.append(process)

    def _said(self, name: str, pattern: re.Pattern[str]) -> str:
        log = self.home(name) / "log"
        process = self._processes[-1]
        wait_until(
            lambda: pattern.search(log.read_text()) or process.poll() is not None,
            f"{name} says {pattern.pattern}",
            START_TIMEOUT_S,
        )
        found = pattern.search(log.read_text())
        assert found is not None, log.read_text()[-2000:]
        return found[1]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what a process of the cluster or a driver has around it: nothing of the tests' own session."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    own |= {
        "SPARK_HOME": str(SPARK_HOME),
        "JAVA_HOME": str(java_for_spark()),
        "SPARK_DAEMON_JAVA_OPTS": QUICK,
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_LOCAL_IP": HOST,
    }
    return own | dict(more or {})

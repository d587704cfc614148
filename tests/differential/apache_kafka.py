"""Apache Kafka's broker in a process of its own: one node, KRaft, jars fetched once by Maven.

The jars lie in the user's cache folder (`$XDG_CACHE_HOME/kohort-tests`), never in the repository.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.waiting import wait_until
from tests.ports import free_port

KAFKA_VERSION = "4.3.1"
POM = Path(__file__).with_name("pom.xml")
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
FETCH_TIMEOUT_S = 600
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 30.0
CLUSTER_ID = "kohortAAAAAAAAAAAAAAAA"
JAVA = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dlog4j2.level=WARN")


class MissingTool(Exception):
    """Java or Maven is not here, or Maven reaches no repository; says which."""


class ApacheKafka:
    """A broker and its controller on free ports, with settings under Kafka's own names."""

    def __init__(self, folder: Path, *settings: str, options: Sequence[str] = JAVA) -> None:
        """Begin later; `options` are the virtual machine's, by default those that start soonest."""
        self._options = options
        self._folder = folder
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._command: list[str] = []
        self.address = ("127.0.0.1", 0)

    def start(self) -> None:
        """Return when it takes connections. Raises: MissingTool, AssertionError with its last lines."""
        java = shutil.which("java")
        if java is None:
            raise MissingTool("Java is not installed")
        classpath, options = f"{jars()}/*", self._options
        self.address = ("127.0.0.1", free_port())
        properties = self._folder / "server.properties"
        properties.write_text(self._properties(free_port()))
        storage = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
        with (self._folder / "kafka.log").open("wb") as log:
            subprocess.run([java, *options, "-cp", classpath, *storage], stdout=log, stderr=log, check=True)
        self._command = [java, *options, "-cp", classpath, "kafka.Kafka", str(properties)]
        self.restart()

    def restart(self) -> None:
        """Start it again after `stop`, on its ports and with its data; return when it takes connections."""
        with (self._folder / "kafka.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_until(self._listens, "Apache Kafka listens", START_TIMEOUT_S)

    @property
    def pid(self) -> int:
        """Of the process, while it runs."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """End the process. Its data is of no use to anybody, so it need not close its logs."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait(STOP_TIMEOUT_S)

    def _listens(self) -> bool:
        assert self._process is not None
        lines = (self._folder / "kafka.log").read_text(errors="replace").splitlines()[-5:]
        assert self._process.poll() is None, "Apache Kafka did not start:\n" + "\n".join(lines)
        with socket.socket() as probe:
            return probe.connect_ex(self.address) == 0

    def _properties(self, controller_port: int) -> str:
        port = self.address[1]
        own = (
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{controller_port}",
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            f"log.dirs={self._folder / 'logs'}",
            "offsets.topic.replication.factor=1",
        )
        return "\n".join((*own, *self._settings)) + "\n"


@contextmanager
def running(folder: Path, *settings: str) -> Iterator[str]:
    """Where a broker listens that runs meanwhile; the test is skipped with a word where it can't be had."""
    broker = ApacheKafka(folder, *settings)
    try:
        broker.start()
    except MissingTool as missing:
        pytest.skip(str(missing))
    try:
        yield "{}:{}".format(*broker.address)
    finally:
        broker.stop()


def jars() -> Path:
    """Return the folder with the broker's jars, fetching them if it is not there. Raises: MissingTool."""
    base = os.environ.get("XDG_CACHE_HOME")
    parent = (Path(base) if base else Path.home() / ".cache") / "kohort-tests"
    folder = parent / f"broker-{KAFKA_VERSION}"
    if not folder.exists():
        _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingTool("Maven is not installed")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Into a folder of our own first: another test run may be fetching the same jars.
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        own = Path(scratch) / "jars"
        command = [maven, "--batch-mode", "--quiet", "--file", str(POM), COPY, f"-DoutputDirectory={own}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
        if done.returncode:
            raise MissingTool(f"Maven could not fetch Apache Kafka {KAFKA_VERSION}: {done.stdout[:300]}")
        if not folder.exists():
            own.rename(folder)

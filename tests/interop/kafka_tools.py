"""Apache Kafka's Java clients and command-line tools: found, fetched once, and run.

The jars lie in the user's cache folder, never in the repository. Where there is no Java or no Maven, or
Maven reaches no repository, `MissingTool` says so, and the tests are skipped with its words.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

JAVA_FOLDER = Path(__file__).parent / "java"
FETCH_TIMEOUT_S = 300
COMPILE_TIMEOUT_S = 120
RUN_TIMEOUT_S = 60
QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m")
RECORD, FIELD = "\x1e", "\x1f"


class MissingTool(Exception):
    """Java or Maven is not here, or Maven reaches no repository; says which."""


@dataclass(frozen=True, slots=True)
class Output:
    """What one of Kafka's tools printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of standard output that are not empty, without the blanks that pad columns."""
        return [line.rstrip() for line in self.out.splitlines() if line.strip()]

    def rows(self) -> list[list[str]]:
        """Return the lines split into their columns."""
        return [line.split() for line in self.lines]


def cache_folder() -> Path:
    """Return the folder that keeps jars and compiled classes between runs."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kohort-tests"


def program(name: str) -> str:
    """Return the path of a program. Raises: MissingTool."""
    path = shutil.which(name)
    if path is None:
        raise MissingTool(f"{name} is not installed")
    return path


def jars(kind: str) -> Path:
    """Return the folder with the jars that `java/KIND/pom.xml` names, fetched if need be.

    Raises: MissingTool.
    """
    program("java")
    pom = JAVA_FOLDER / kind / "pom.xml"
    folder = cache_folder() / f"{kind}-{digest(pom)}"
    if not folder.exists():
        fetch(pom, folder)
    return folder


def fetch(pom: Path, folder: Path) -> None:
    """Copy the jars that a pom names into a folder, which appears when it is complete."""
    maven = program("mvn")
    own = _own(folder)
    command = [maven, "--batch-mode", "--quiet", "--file", str(pom), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={own}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if done.returncode:
        shutil.rmtree(own, ignore_errors=True)
        raise MissingTool(f"Maven could not fetch the jars of {pom}: {done.stdout[:300]}")
    put_in_place(own, folder)


def classes(source: Path, class_path: Path) -> Path:
    """Return the folder with the classes of a source file, compiled if need be. Raises: MissingTool."""
    compiler = program("javac")
    folder = cache_folder() / f"{source.stem}-{digest(source)}"
    if not folder.exists():
        own = _own(folder)
        command = [compiler, "-cp", f"{class_path}/*", "-d", str(own), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr
        put_in_place(own, folder)
    return folder


def _own(folder: Path) -> Path:
    """Return a name that no other run and no other thread has, for what is not complete yet."""
    return folder.with_name(f"{folder.name}-{os.getpid()}-{threading.get_ident()}")


def put_in_place(own: Path, folder: Path) -> None:
    """Give a complete folder its name, unless another run was quicker."""
    try:
        own.rename(folder)
    except OSError:
        shutil.rmtree(own)


def digest(path: Path) -> str:
    """Return a short name for a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def java_command(kind: str, source: str, *arguments: str) -> list[str]:
    """Return the command that runs `java/SOURCE.java` with the jars of that kind. Raises: MissingTool."""
    folder = jars(kind)
    compiled = classes(JAVA_FOLDER / f"{source}.java", folder)
    return [program("java"), *QUICK_JVM, "-cp", f"{compiled}:{folder}/*", source, *arguments]


class Tools:
    """A JVM that runs the tools' main methods one after the other: the machine starts only once."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            java_command("tools", "RunTools"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    def run(self, tool: str, *arguments: str, typed: str = "") -> Output:
        """Return what a tool prints when it is run with these arguments and `typed` as standard input."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(FIELD.join([CLASSES[tool], typed, *arguments]) + RECORD)
        self._process.stdin.flush()
        answer = ""
        while not answer.endswith(RECORD):
            piece = self._process.stdout.read(1)
            assert piece, f"the JVM ended in {tool}"
            answer += piece
        status, out, err = answer.removesuffix(RECORD).split(FIELD)
        return Output(int(status), out, err)

    def close(self) -> None:
        """End the JVM."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


_TOOLS = "org.apache.kafka.tools"
CLASSES = {
    "kafka-topics": f"{_TOOLS}.TopicCommand",
    "kafka-console-producer": f"{_TOOLS}.ConsoleProducer",
    "kafka-console-consumer": f"{_TOOLS}.consumer.ConsoleConsumer",
    "kafka-consumer-groups": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-groups": f"{_TOOLS}.GroupsCommand",
    "kafka-share-groups": f"{_TOOLS}.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": f"{_TOOLS}.streams.StreamsGroupCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-get-offsets": f"{_TOOLS}.GetOffsetShell",
    "kafka-delete-records": f"{_TOOLS}.DeleteRecordsCommand",
    "kafka-broker-api-versions": f"{_TOOLS}.BrokerApiVersionsCommand",
    "kafka-log-dirs": f"{_TOOLS}.LogDirsCommand",
    "kafka-dump-log": f"{_TOOLS}.DumpLogSegments",
    "kafka-reassign-partitions": f"{_TOOLS}.reassign.ReassignPartitionsCommand",
    "kafka-leader-election": f"{_TOOLS}.LeaderElectionCommand",
    "kafka-cluster": f"{_TOOLS}.ClusterTool",
    "kafka-acls": f"{_TOOLS}.AclCommand",
    "kafka-transactions": f"{_TOOLS}.TransactionsCommand",
    "kafka-client-metrics": f"{_TOOLS}.ClientMetricsCommand",
}


def run_program(command: Sequence[str]) -> Output:
    """Return what a program printed. Raises: subprocess.TimeoutExpired."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    return Output(done.returncode, done.stdout, done.stderr)

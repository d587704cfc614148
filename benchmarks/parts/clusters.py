"""Three brokers of kohort, and of Apache Kafka, for a benchmark to kill: processes with default settings."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.cluster.etcd_binary import etcd_binary
from tests.cluster.etcd_process import EtcdMembers
from tests.differential.apache_kafka import CLUSTER_ID, MissingTool, jars
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until
from tests.ports import free_port

NODES = (1, 2, 3)
START_SECONDS = 120.0
STOP_SECONDS = 60.0
SYNCED = "--unsafe-no-fsync=false"
KAFKA_JVM = (  # As kafka-server-start.sh and kafka-run-class.sh have it, with half of the memory.
    *("-Xms512m", "-Xmx512m", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15"),
    *("-Djava.awt.headless=true", "-Dlog4j2.level=WARN"),
)
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Cluster(Protocol):
    """Three brokers by their node ids."""

    name: str
    addresses: dict[int, tuple[str, int]]

    def start(self) -> None:
        """Return once all listen."""

    def start_one(self, node_id: int) -> None:
        """Start a broker that has ended; return once it listens."""

    def end_one(self, node_id: int, how: signal.Signals) -> None:
        """Send a broker the signal; return without waiting."""

    def await_end(self, node_id: int) -> None:
        """Return once its process has ended."""

    def cpu_seconds(self) -> float:
        """Return the CPU time of the brokers so far."""

    def stop(self) -> None:
        """Kill everything."""


class KohortCluster:
    """On three members of etcd, which sync as they do by default."""

    def __init__(self, folder: Path, *settings: str, name: str = "kohort") -> None:
        self.name = name
        (folder / "etcd").mkdir()
        self._etcd = EtcdMembers(etcd_binary(), folder / "etcd", SYNCED)
        self._brokers: dict[int, BrokerProcess] = {}
        for node_id in NODES:
            own = folder / str(node_id)
            own.mkdir()
            cluster = f"kohort.cluster=etcd://{self._etcd.endpoints}/bench"
            common = ("default.replication.factor=3", "group.initial.rebalance.delay.ms=0")
            self._brokers[node_id] = BrokerProcess(own, cluster, f"node.id={node_id}", *common, *settings)
            self._brokers[node_id].options = ("--log-level", "warning")
        self.addresses: dict[int, tuple[str, int]] = {}
        self._ending: dict[int, int] = {}

    def start(self) -> None:
        self._etcd.start()
        for node_id in NODES:
            self.start_one(node_id)

    def start_one(self, node_id: int) -> None:
        self._brokers[node_id].start()
        self.addresses[node_id] = self._brokers[node_id].address

    def end_one(self, node_id: int, how: signal.Signals) -> None:
        os.kill(self._brokers[node_id].pid, how)

    def await_end(self, node_id: int) -> None:
        wait_until(lambda: not self._brokers[node_id].is_running(), "it has ended", STOP_SECONDS)
        self._brokers[node_id].kill()

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(each.pid) for each in self._brokers.values() if each.is_running())

    def stop(self) -> None:
        for each in self._brokers.values():
            each.kill()
        self._etcd.kill()


class KafkaCluster:
    """Apache Kafka on three nodes that are brokers and controllers (KRaft); `options` are Java's."""

    name = "Apache Kafka"

    def __init__(self, folder: Path, *settings: str, options: Sequence[str] = ()) -> None:
        java = shutil.which("java")
        if java is None:
            raise MissingTool("Java is not installed")
        self._command = [java, *KAFKA_JVM, *options, "-cp", f"{jars()}/*"]
        self._folder = folder
        self.logs = [folder / str(node_id) / "server.log" for node_id in NODES]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        ports = {node_id: (free_port(), free_port()) for node_id in NODES}
        voters = ",".join(f"{node_id}@127.0.0.1:{ports[node_id][1]}" for node_id in NODES)
        self.addresses = {node_id: ("127.0.0.1", ports[node_id][0]) for node_id in NODES}
        for node_id, (port, controller_port) in ports.items():
            own = folder / str(node_id)
            own.mkdir()
            lines = (
                "process.roles=broker,controller",
                f"node.id={node_id}",
                f"controller.quorum.voters={voters}",
                f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
                f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
                "controller.listener.names=CONTROLLER",
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                f"log.dirs={own / 'logs'}",
                "default.replication.factor=3",
                "offsets.topic.replication.factor=3",
                "group.initial.rebalance.delay.ms=0",
                *settings,
            )
            (own / "server.properties").write_text("\n".join(lines) + "\n")

    def start(self) -> None:
        for node_id in NODES:
            own = self._folder / str(node_id)
            storage = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]
            with (own / "format.log").open("wb") as log:
                subprocess.run(
                    [*self._command, *storage, "-c", str(own / "server.properties")],
                    stdout=log,
                    stderr=log,
                    check=True,
                )
        for node_id in NODES:
            self._launch(node_id)
        for node_id in NODES:
            self._await(node_id)

    def start_one(self, node_id: int) -> None:
        self._launch(node_id)
        self._await(node_id)

    def _launch(self, node_id: int) -> None:
        own = self._folder / str(node_id)
        with (own / "server.log").open("ab") as log:
            command = [*self._command, "kafka.Kafka", str(own / "server.properties")]
            self._processes[node_id] = subprocess.Popen(command, stdout=log, stderr=log)

    def _await(self, node_id: int) -> None:
        from benchmarks.parts.raw_client import listens

        wait_until(lambda: listens(self.addresses[node_id]), f"Apache Kafka {node_id} listens", START_SECONDS)

    def end_one(self, node_id: int, how: signal.Signals) -> None:
        self._processes[node_id].send_signal(how)

    def await_end(self, node_id: int) -> None:
        self._processes[node_id].wait(STOP_SECONDS)

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(each.pid) for each in self._processes.values() if each.poll() is None)

    def stop(self) -> None:
        for each in self._processes.values():
            if each.poll() is None:
                each.kill()
                each.wait()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def busy_seconds() -> tuple[float, float]:
    """Return what all cores have worked, and how long they are up."""
    ticks = [int(each) for each in Path("/proc/stat").read_text().partition("\n")[0].split()[1:]]
    idle = ticks[3] + ticks[4]
    return (sum(ticks[:8]) - idle) / CLOCK_TICKS, time.monotonic() * (os.cpu_count() or 1)

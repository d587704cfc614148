"""`kohort serve` as a process: what its file says, whose folder it takes, and a broker for a moment."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from kohort.broker.coordination.test_shard import Client
from kohort.client import Admin, ResourceType
from kohort.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kohort.protocol.schema import Message
from tests.cli import here
from tests.cli.conftest import COMMAND

M = TypeVar("M", bound=Message)
READY = re.compile(r"kohort ready kafka=(?P<kafka>\S+) http=(?P<http>\S+) data=(?P<data>\S+)")


@contextmanager
def served(*arguments: str) -> Iterator[re.Match[str]]:
    """Yield what a broker says when it is ready; ended cleanly behind the block."""
    command = [*COMMAND, "serve", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = READY.match(process.stdout.readline())
        try:
            assert ready is not None, process.communicate(timeout=20)[1]
            yield ready
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
        assert process.returncode == 0


def refused(*arguments: str, code: int = 1) -> str:
    done = subprocess.run(
        [*COMMAND, "serve", *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == code, done
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_an_ephemeral_broker_leaves_no_files_and_stops_quickly() -> None:
    with served("--ephemeral") as ready:
        folder = Path(ready["data"])
        assert folder.exists()
        here.kohort("produce", "t", "-q", "-b", ready["kafka"], stdin="a\n")
        read = here.kohort(*("consume", "t", "-g", "g", "--from-beginning", "-n", "1", "-b", ready["kafka"]))
        assert (read.returncode, read.stdout) == (0, "a\n")
        with Admin(bootstrap_servers=ready["kafka"]) as admin:
            settings = admin.describe_configs(ResourceType.BROKER, "1")
        assert settings["group.initial.rebalance.delay.ms"].value == "0", "a new group waits 3 s elsewhere"
    assert not folder.parent.exists()


def test_an_ephemeral_broker_has_no_data_folder() -> None:
    assert "leave --data out" in refused("--ephemeral", "--data", "x", code=2)


def test_the_command_line_overrides_the_configuration_file(tmp_path: Path) -> None:
    file = tmp_path / "kohort.toml"
    file.write_text(f'listen = "127.0.0.1:0"\nhttp = "127.0.0.1:1"\ndata = "{tmp_path}/from-file"\n')
    with served("--config", str(file), "--http", "127.0.0.1:0") as ready:
        assert ready["data"] == f"{tmp_path}/from-file"
        assert not ready["http"].endswith(":1")
    file.write_text('listen = "nowhere"\n')
    assert "listen: 'nowhere' is not HOST:PORT" in refused("--config", str(file))


def test_each_listener_returns_its_advertised_address(tmp_path: Path) -> None:
    two = ("--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--advertise", "localhost:0",
           "--advertise", "127.0.0.2:19092")  # fmt: skip
    with served(*two, "--http", "127.0.0.1:0", "--data", str(tmp_path / "data")) as ready:
        first, second = ready["kafka"].split(",")
        assert first != second
        assert told(first) == [f"localhost:{first.rpartition(':')[2]}"] * 3
        assert told(second) == ["127.0.0.2:19092"] * 3
        here.kohort("produce", "t", "-q", "-b", first, stdin="a\n")
        assert told(second, topic="t") == ["127.0.0.2:19092"] * 3
    words = refused("--listen", "127.0.0.1:0", "--advertise", "a:1", "--advertise", "b:2", code=2)
    assert "more --advertise than --listen" in words


def told(bootstrap: str, topic: str | None = None) -> list[str]:
    """Return what three questions answer of the broker's address, without going there."""
    asked = None if topic is None else (MetadataRequestTopic(name=topic),)
    metadata = ask(bootstrap, MetadataRequest(topics=asked), MetadataResponse)
    cluster = ask(bootstrap, DescribeClusterRequest(), DescribeClusterResponse)
    found = ask(bootstrap, FindCoordinatorRequest(coordinator_keys=("g",)), FindCoordinatorResponse)
    places = (*metadata.brokers, *cluster.brokers, *found.coordinators)
    return [f"{each.host}:{each.port}" for each in places]


def ask(bootstrap: str, request: Message, kind: type[M]) -> M:
    async def asked() -> M:
        host, port = bootstrap.split(":")
        return await Client(await trio.open_tcp_stream(host, int(port))).ask(request, kind)

    return trio.run(asked)


def test_a_file_names_several_listeners(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "listeners=HOST://127.0.0.1:0,NETWORK://127.0.0.1:0\n"
        "listener.security.protocol.map=HOST:PLAINTEXT,NETWORK:PLAINTEXT\n"
        f"advertised.listeners=NETWORK://127.0.0.2:19092\nhttp=127.0.0.1:0\nlog.dirs={tmp_path}/data\n"
    )
    with served("--config", str(file)) as ready:
        first, second = ready["kafka"].split(",")
        assert (told(first), told(second)) == ([first] * 3, ["127.0.0.2:19092"] * 3)
    file = tmp_path / "kohort.toml"
    file.write_text('listen = "127.0.0.1:0"\nadvertise = ["a:1", "b:2"]\n')
    assert "2 addresses are advertised of 1 listeners" in refused("--config", str(file))


def test_a_file_with_unsupported_security_settings_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    places = f"http=127.0.0.1:0\nlog.dirs={tmp_path}/data\n"
    inside = "listeners=INSIDE://127.0.0.1:0\nlistener.security.protocol.map=INSIDE:SASL_PLAINTEXT\n"
    file.write_text(f"{inside}{places}")
    words = "listener INSIDE with SASL_PLAINTEXT needs sasl.enabled.mechanisms"
    for also in ((), ("--check-config",)):
        assert words in refused("--config", str(file), *also)
    enabled = f"{inside}{places}listener.name.inside.sasl.enabled.mechanisms=PLAIN\n"
    file.write_text(enabled)
    assert "listener.name.inside.plain.sasl.jaas.config: PLAIN needs users" in refused(
        "--config", str(file), "--check-config"
    )
    file.write_text(f"{enabled}listener.name.inside.plain.sasl.jaas.config=Secret\n")
    assert "it is not of the form MODULE required" in refused("--config", str(file), "--check-config")
    file.write_text(f"{enabled}listener.name.outside.plain.sasl.jaas.config=Secret\n")
    assert "there is no such listener; give one of inside" in refused("--config", str(file), "--check-config")
    assert not (tmp_path / "data").exists()


def test_http_writes_need_explicit_host_names() -> None:
    words = refused("--ephemeral", "--http-allow-writes", "--set", "kohort.http.allowed.hosts=*")
    assert "name the hosts instead" in words
    with served("--ephemeral", "--http-allow-writes") as ready:
        assert ready["http"].startswith("127.0.0.1:")


def test_a_folder_keeps_its_node_id(tmp_path: Path) -> None:
    where = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    with served(*where, "--set", "node.id=7"):
        pass
    with served(*where) as ready:
        described = here.kohort("cluster", "describe", "-b", ready["kafka"])
        assert described.stdout.splitlines()[2].startswith("7 ")
    words = refused(*where, "--set", "node.id=8")
    assert "belongs to broker 7 of cluster" in words
    assert "not to broker 8 of cluster" in words
    assert "MetaProperties" not in words


def test_settings_are_checked_without_a_start(tmp_path: Path) -> None:
    file = tmp_path / "kohort.toml"
    file.write_text(f'data = "{tmp_path}/data"\nnum.partitions = 6\n')
    done = subprocess.run(
        [*COMMAND, "serve", "--config", str(file), "--check-config"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, f"data={tmp_path}/data\nnum.partitions=6\n")
    assert not (tmp_path / "data").exists()
    assert "did you mean num.partitions" in refused("--set", "num.partition=1", "--check-config")


@pytest.mark.parametrize("name", ["log.dirs", "listeners"])
def test_kafkas_names_of_options_name_ours(name: str) -> None:
    assert "is an option of kohort serve: --" in refused("--set", f"{name}=x")

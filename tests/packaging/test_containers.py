"""Dockerfile and docker-compose.yml against the command and the pages that they name; no engine is needed."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kohort.broker.main import parse
from kohort.testing import Broker

ROOT = Path(__file__).parents[2]
Compose = dict[str, Any]


@pytest.fixture
def compose() -> Compose:
    found: Compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    return found


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions, continued lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def last(instruction: str) -> str:
    return [value for name, value in instructions() if name == instruction][-1]


def test_the_image_starts_the_broker_with_options_that_exist() -> None:
    program, arguments = json.loads(last("ENTRYPOINT")), json.loads(last("CMD"))
    assert (program, arguments[0]) == (["kohort"], "serve")
    options = parse(arguments[1:])
    assert str(options.places.listen) == "0.0.0.0:9092"
    assert str(options.http) == "0.0.0.0:9644"
    assert last("EXPOSE").split() == ["9092", "9644"]


def test_the_image_advertises_an_address_of_a_published_port() -> None:
    """A broker on all interfaces advertises the container's host name, which nobody else can resolve."""
    options = parse(json.loads(last("CMD"))[1:])
    assert str(options.places.advertise) == f"localhost:{options.places.listen.port}"


def test_the_image_is_built_in_two_stages_and_runs_as_its_own_user() -> None:
    names = [name for name, _ in instructions()]
    assert names.count("FROM") == 2
    assert last("USER") == "kohort"
    assert names.index("USER") < names.index("CMD")
    options = parse(json.loads(last("CMD"))[1:])
    assert str(options.places.data).startswith(last("VOLUME"))


def health_commands(compose: Compose) -> list[list[str]]:
    """Return the commands by which the image and the compose file ask how the broker is."""
    _, _, image = last("HEALTHCHECK").partition("CMD ")
    return [json.loads(image), compose["services"]["broker"]["healthcheck"]["test"][1:]]


def test_the_health_check_uses_the_http_port_of_the_image(compose: Compose) -> None:
    for command in health_commands(compose):
        assert "('127.0.0.1', 9644)" in command[-1]


def test_the_health_check_reports_readiness(compose: Compose) -> None:
    for command in health_commands(compose):
        with Broker(http=True) as broker:
            program = command[-1].replace("9644", broker.http.rpartition(":")[2])
            asked = [sys.executable, *command[1:-1], program]
            assert subprocess.run(asked, check=False, timeout=20).returncode == 0
        assert subprocess.run(asked, check=False, capture_output=True, timeout=20).returncode != 0


def test_copied_files_are_not_ignored() -> None:
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    for needed in ("pyproject.toml", "constraints.txt", "README.md", "LICENSE", "broker", "cli", "testkit"):
        assert f"!{needed}\n" in kept
        assert (ROOT / needed).exists()


def test_compose_starts_a_broker_with_options_that_exist(compose: Compose) -> None:
    broker = compose["services"]["broker"]
    command = broker["command"]
    options = parse(command[1:])
    assert command[0] == "serve"
    host, network = options.places.listeners
    assert (str(host.advertise), str(network.advertise)) == ("localhost:9092", "broker:19092")
    assert (host.listen.port, network.listen.port) == (9092, 19092)
    assert {port.rpartition(":")[2] for port in broker["ports"]} == {
        str(options.places.listen.port),
        str(options.http.port),
    }
    assert any(str(options.places.data).startswith(volume.split(":")[1]) for volume in broker["volumes"])


def test_ports_are_published_only_on_this_machine(compose: Compose) -> None:
    published = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert published
    for port in published:
        interface, outside, inside = port.split(":")
        assert (interface, outside) == ("127.0.0.1", inside)


def test_clients_in_the_network_use_an_advertised_listener(compose: Compose) -> None:
    client, broker = compose["services"]["client"], compose["services"]["broker"]
    given = client["environment"]["KOHORT_BOOTSTRAP_SERVERS"]
    advertised = [str(each.advertise) for each in parse(broker["command"][1:]).places.listeners]
    assert given == f"{broker['hostname']}:19092" == advertised[1]
    assert not any(each.endswith(":19092") for each in broker["ports"]), "this machine has its own"
    assert client["image"] == compose["services"]["broker"]["image"]
    assert client["profiles"] == ["client"], "it is run when it is asked for"
    assert "docker compose run --rm client topics list" in (ROOT / "docker-compose.yml").read_text("utf-8")


def test_every_service_has_a_health_check_and_prometheus_waits_for_the_broker(compose: Compose) -> None:
    serving = [each for each in compose["services"].values() if "profiles" not in each]
    assert all("healthcheck" in service for service in serving)
    assert compose["services"]["prometheus"]["depends_on"]["broker"] == {"condition": "service_healthy"}


def test_every_named_volume_is_declared(compose: Compose) -> None:
    used = {
        volume.split(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", ())
        if not volume.startswith(".")
    }
    assert used == set(compose["volumes"])


def test_prometheus_scrapes_the_broker(compose: Compose) -> None:
    mounts = [each for each in compose["services"]["prometheus"]["volumes"] if each.startswith("./")]
    assert all((ROOT / each.split(":")[0]).exists() for each in mounts)
    (mount,) = (each for each in mounts if each.startswith("./deploy/prometheus.yml"))
    settings = yaml.safe_load((ROOT / mount.split(":")[0]).read_text(encoding="utf-8"))
    (job,) = settings["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["broker:9644"]}]
    assert compose["services"]["broker"]["hostname"] == "broker", "HTTP answers to the host's own name"
    options = parse(compose["services"]["broker"]["command"][1:])
    assert ("kohort.http.allowed.hosts", "broker") in options.settings
    assert job.get("metrics_path", "/metrics") == "/metrics"


def test_docker_compose_accepts_the_file() -> None:
    docker = shutil.which("docker")
    has_compose = docker is not None and (
        subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode == 0
    )
    if not has_compose:
        pytest.skip("docker compose is not installed")
    assert docker is not None
    subprocess.run([docker, "compose", "config", "--quiet"], cwd=ROOT, check=True, timeout=60)

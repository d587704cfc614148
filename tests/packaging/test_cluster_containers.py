"""docker-compose.cluster.yml against the command and itself; no engine is needed."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kohort.broker.etcd.address import cluster_address
from kohort.broker.main import ServeOptions, parse

ROOT = Path(__file__).parents[2]
FILE = "docker-compose.cluster.yml"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / FILE).read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
ETCD = [name for name in SERVICES if name.startswith("etcd-")]
BROKERS = [name for name in SERVICES if name.startswith("broker-")]


def options(name: str) -> ServeOptions:
    command = SERVICES[name]["command"]
    assert command[0] == "serve"
    return parse(command[1:])


def settings(name: str) -> dict[str, str]:
    return dict(options(name).settings)


def test_three_brokers_start_with_options_that_exist_each_with_its_own_places() -> None:
    assert len(BROKERS) == len(ETCD) == 3
    assert [settings(each)["node.id"] for each in BROKERS] == ["1", "2", "3"]
    assert len({settings(each)["broker.rack"] for each in BROKERS}) == 3
    for what in ("listen", "http"):
        ports = {
            (options(each).http if what == "http" else options(each).places.listen).port for each in BROKERS
        }
        assert len(ports) == 3


def test_all_brokers_name_one_cluster_and_every_etcd() -> None:
    (url,) = {settings(each)["kohort.cluster"] for each in BROKERS}
    assert cluster_address(url).endpoints == tuple(f"http://{each}:2379" for each in ETCD)


def test_every_etcd_has_the_same_member_list() -> None:
    lists = set()
    for name in ETCD:
        given = dict(each.removeprefix("--").partition("=")[::2] for each in SERVICES[name]["command"][1:])
        assert given["name"] == name
        assert given["initial-advertise-peer-urls"] == f"http://{name}:2380"
        assert given["advertise-client-urls"] == f"http://{name}:2379"
        lists.add(given["initial-cluster"])
    assert lists == {",".join(f"{each}=http://{each}:2380" for each in ETCD)}


def test_advertised_addresses_are_reachable_for_brokers_and_for_the_host() -> None:
    published = {port.partition(":")[2] for port in SERVICES["brokers"]["ports"]}
    for name in (*BROKERS, "client"):
        assert SERVICES[name]["network_mode"] == "service:brokers", "localhost is the same there"
    for name in BROKERS:
        found = options(name)
        assert str(found.places.advertise) == f"localhost:{found.places.listen.port}"
        for port in (found.places.listen.port, found.http.port):
            assert f"{port}:{port}" in published
    assert all(port.startswith("127.0.0.1:") for port in SERVICES["brokers"]["ports"])
    servers = SERVICES["client"]["environment"]["KOHORT_BOOTSTRAP_SERVERS"]
    assert servers == ",".join(str(options(each).places.advertise) for each in BROKERS)


def test_topics_survive_a_broker_and_are_acknowledged_by_two() -> None:
    for name in BROKERS:
        found = settings(name)
        assert found["default.replication.factor"] == found["offsets.topic.replication.factor"] == "3"
        assert found["min.insync.replicas"] == "2"


def test_every_service_has_a_health_check_at_its_http_port() -> None:
    assert all("healthcheck" in each for each in SERVICES.values() if "profiles" not in each)
    for name in BROKERS:
        assert f":{options(name).http.port}/health/ready" in SERVICES[name]["healthcheck"]["test"][-1]
        waits_for = {"brokers", *ETCD}
        assert SERVICES[name]["depends_on"] == {each: {"condition": "service_healthy"} for each in waits_for}


def test_every_volume_is_declared_and_used_by_one_broker() -> None:
    used = [
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", ())
        if not volume.startswith(".")
    ]
    assert sorted(used) == sorted(COMPOSE["volumes"])


def test_prometheus_scrapes_every_broker_by_a_name_that_it_answers_to() -> None:
    (mount,) = (each for each in SERVICES["prometheus"]["volumes"] if each.startswith("./"))
    (job,) = yaml.safe_load((ROOT / mount.split(":")[0]).read_text(encoding="utf-8"))["scrape_configs"]
    (targets,) = job["static_configs"]
    host = SERVICES["brokers"]["hostname"]
    assert targets["targets"] == [f"{host}:{options(each).http.port}" for each in BROKERS]
    assert all(settings(each)["kohort.http.allowed.hosts"] == host for each in BROKERS)


def test_the_image_includes_the_etcd_client() -> None:
    assert '".[cluster]"' in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_docker_compose_accepts_the_file() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], check=False).returncode:
        pytest.skip("docker compose is not installed")
    command = [docker, "compose", "-f", FILE, "config", "--quiet"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)

"""deploy/kubernetes: manifests that Kubernetes' schema has, with commands and settings that kohort has."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from kohort.broker.main import parse
from kohort.cli.commands import kohort as cli
from kohort.client.config import INSTANCE_ID_VARIABLE
from kohort.queues.forward import load_settings

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
WORKERS = DEPLOY / "workers"
CLUSTER = DEPLOY / "cluster"
KUSTOMIZATION = "kustomization.yaml"
FILES = sorted(each for each in DEPLOY.rglob("*.yaml") if each.name != KUSTOMIZATION)
PYTHON_TYPES = {"str": str, "int": int, "bool": bool, "float": (int, float)}
START_MS = 30_000
"""So long a pod may take from the end of the one before it to its first heartbeat."""
Manifest = dict[str, Any]
Place = tuple[str | int, ...]
WHY = "the package kubernetes is not installed: make applications runs it"


def manifests(path: Path) -> list[Manifest]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def _workers() -> Iterator[Manifest]:
    """Yield the manifests of pods that are members of groups."""
    for path in sorted(WORKERS.glob("*.yaml")):
        if path.name != KUSTOMIZATION:
            yield from (each for each in manifests(path) if each["kind"] in {"StatefulSet", "Deployment"})


def container(manifest: Manifest) -> Manifest:
    (found,) = manifest["spec"]["template"]["spec"]["containers"]
    return dict(found)


def name_of(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])


ALL_WORKERS = list(_workers())


def test_the_manifests_start_a_broker_with_options_that_exist() -> None:
    (service,), (stateful,) = (manifests(DEPLOY / name) for name in ("service.yaml", "statefulset.yaml"))
    ours = container(stateful)
    command, *options = ours["args"]
    assert command == "serve"
    found = parse(options)
    assert str(found.places.advertise) == f"{service['metadata']['name']}:9092"
    assert ("kohort.http.allowed.hosts", service["metadata"]["name"]) in found.settings
    ports = {each["name"]: each["containerPort"] for each in ours["ports"]}
    assert ports == {"kafka": found.places.listen.port, "http": found.http.port}
    assert {each["targetPort"]: each["port"] for each in service["spec"]["ports"]} == ports
    assert any(str(found.places.data).startswith(each["mountPath"]) for each in ours["volumeMounts"])
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == stateful["spec"]["selector"]["matchLabels"] == labels


def test_the_cluster_has_brokers_that_come_back_as_themselves() -> None:
    stateful, budget = manifests(CLUSTER / "statefulset.yaml")
    clients, brokers = manifests(CLUSTER / "service.yaml")
    ours, replicas = container(stateful), stateful["spec"]["replicas"]
    pods = [
        {"POD_NAME": f"{name_of(stateful)}-{index}", "POD_INDEX": str(index)} for index in range(replicas)
    ]
    assert {each["name"] for each in ours["env"]} == set(pods[0])
    found = [parse([expanded(word, pod) for word in ours["args"][1:]]) for pod in pods]
    domain = stateful["spec"]["serviceName"]
    assert domain == name_of(brokers)
    assert brokers["spec"]["clusterIP"] == "None"
    assert [str(each.places.advertise) for each in found] == [
        f"{pod['POD_NAME']}.{domain}:9092" for pod in pods
    ]
    settings = [dict(each.settings) for each in found]
    assert (
        int(settings[0]["min.insync.replicas"]) < int(settings[0]["default.replication.factor"]) == replicas
    )
    assert budget["spec"]["maxUnavailable"] == 1
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    selectors = [each["spec"]["selector"] for each in (clients, brokers)]
    assert [*selectors, budget["spec"]["selector"]["matchLabels"]] == [labels] * 3
    assert {each: ours[each]["httpGet"]["path"] for each in ours if each.endswith("Probe")} == {
        "startupProbe": "/health/live",
        "livenessProbe": "/health/live",
        "readinessProbe": "/health/ready",
    }


def expanded(word: str, variables: Mapping[str, str]) -> str:
    """Return an argument as Kubernetes hands it to the command."""
    return re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], word)


@pytest.mark.parametrize("folder", [DEPLOY, WORKERS, CLUSTER], ids=lambda path: path.name)
def test_kustomize_has_every_file_that_is_not_an_alternative(folder: Path) -> None:
    text = (folder / KUSTOMIZATION).read_text(encoding="utf-8")
    named = set(re.findall(r"- ([a-z-]+\.yaml)", text))
    assert named == {each.name for each in folder.glob("*.yaml")} - {KUSTOMIZATION}
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    done = subprocess.run(
        [kubectl, "kustomize", folder], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    built = list(yaml.safe_load_all(done.stdout))
    assert len(built) >= 2
    code = {each["metadata"]["name"] for each in built if each["kind"] == "ConfigMap"}
    mounted = {
        volume["configMap"]["name"]
        for each in built
        if each["kind"] in {"StatefulSet", "Deployment"}
        for volume in each["spec"]["template"]["spec"].get("volumes", ())
        if "configMap" in volume
    }
    assert mounted == code


@pytest.mark.parametrize("manifest", ALL_WORKERS, ids=name_of)
def test_a_worker_has_its_name_its_probes_and_time_to_stop(manifest: Manifest) -> None:
    pod, ours = manifest["spec"]["template"]["spec"], container(manifest)
    environment = {each["name"]: each for each in ours["env"]}
    field = {"fieldRef": {"fieldPath": "metadata.name"}}
    is_stateful = manifest["kind"] == "StatefulSet"
    name = environment.get(INSTANCE_ID_VARIABLE)
    assert name == ({"name": INSTANCE_ID_VARIABLE, "valueFrom": field} if is_stateful else None)
    assert environment["KOHORT_BOOTSTRAP_SERVERS"]["value"] == "kohort:9092"
    ports = {each["name"]: each["containerPort"] for each in ours.get("ports", ())}
    http = option(ours.get("args", ()), "--http")
    assert ports == ({} if http is None else {"http": int(http.rpartition(":")[2])})
    assert (http is None) == ("command" in ours), "a worker of kohort's is probed by HTTP"
    paths = {
        "startupProbe": "/health/live",
        "livenessProbe": "/health/live",
        "readinessProbe": "/health/ready",
    }
    for probe, path in paths.items() if http else ():
        assert ours[probe]["httpGet"] == {"path": path, "port": "http"}
        assert ours[probe]["timeoutSeconds"] > 5, "a loop that stands still is given up after 5 s"
    assert "readinessProbe" in ours
    stops_s = ours["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert 0 < stops_s < pod["terminationGracePeriodSeconds"] / 2
    volumes = {each["name"] for each in pod["volumes"]}
    assert {each["name"] for each in ours["volumeMounts"]} == volumes
    labels = manifest["spec"]["template"]["metadata"]["labels"]
    assert manifest["spec"]["selector"]["matchLabels"].items() <= labels.items()
    if is_stateful:
        assert manifest["spec"]["serviceName"] == name_of(manifests(WORKERS / "service.yaml")[0])


@pytest.mark.parametrize("manifest", ALL_WORKERS, ids=name_of)
def test_a_static_member_is_back_before_its_session_ends(manifest: Manifest) -> None:
    grace_ms = manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] * 1000
    if manifest["kind"] == "Deployment":
        assert "maxSurge" in manifest["spec"]["strategy"]["rollingUpdate"]
        return
    ours = container(manifest)
    settings = dict(each.split("=") for each in options(ours.get("args", ()), "--property"))
    if "session.timeout.ms" in settings:
        session_ms = int(settings["session.timeout.ms"])
    elif "--config" in ours.get("args", ()):
        text = (WORKERS / "code" / option(ours["args"], "--config")).read_text(encoding="utf-8")
        session_ms = min(each["session_timeout_ms"] for each in tomllib.loads(text)["forward"])
    else:
        text = (WORKERS / "code" / ours["command"][1]).read_text(encoding="utf-8")
        session_ms = int(re.findall(r"session_timeout_ms=([\d_]+)", text)[0])
    assert grace_ms + START_MS < session_ms, name_of(manifest)


@pytest.mark.parametrize("manifest", ALL_WORKERS, ids=name_of)
def test_a_drained_node_takes_one_pod_at_a_time(manifest: Manifest) -> None:
    budgets = [
        each
        for path in WORKERS.glob("*.yaml")
        if path.name != KUSTOMIZATION
        for each in manifests(path)
        if each["kind"] == "PodDisruptionBudget"
        and each["spec"]["selector"]["matchLabels"] == manifest["spec"]["selector"]["matchLabels"]
    ]
    assert [each["spec"]["maxUnavailable"] for each in budgets] == [1]
    assert manifest["spec"]["replicas"] > 1


@pytest.mark.parametrize("manifest", ALL_WORKERS, ids=name_of)
def test_a_workers_command_is_one_that_there_is(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = container(manifest)
    monkeypatch.setenv(INSTANCE_ID_VARIABLE, "pod-0")
    code = {each.name for each in (WORKERS / "code").iterdir() if each.is_file()}
    if "command" in ours:
        assert ours["command"][0] == "python"
        assert ours["command"][1] in code
        return
    command: click.Command = cli
    words = list(ours["args"])
    context = click.Context(cli)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None, ours["args"]
        command = found
    if "forward.toml" in words:
        words[words.index("forward.toml")] = str(WORKERS / "code" / "forward.toml")
        assert load_settings(WORKERS / "code" / "forward.toml").forward
    parsed = command.make_context(name_of(manifest), words, resilient_parsing=False, auto_envvar_prefix=None)
    assert parsed.params["http"] == option(ours["args"], "--http")
    called = option(ours["args"], "--call")
    if called is not None:
        module, _, attribute = called.partition(":")
        assert f"{module}.py" in code
        assert re.search(
            rf"^(def|class) {attribute}\b", (WORKERS / "code" / f"{module}.py").read_text("utf-8"), re.M
        )


def option(words: Any, name: str) -> Any:
    """Return what stands behind an option; None where it is not given."""
    return next(iter(options(words, name)), None)


def options(words: Any, name: str) -> list[str]:
    return [value for given, value in pairwise(words) if given == name]


# Kubernetes' own schema


@pytest.fixture(scope="module")
def models() -> Any:
    """The types of Kubernetes' OpenAPI schema."""
    client = pytest.importorskip(
        "kubernetes.client", reason="the package kubernetes is not installed: make applications"
    )
    return client.models


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_the_manifests_are_what_kubernetes_schema_has(models: Any, path: Path) -> None:
    for manifest in manifests(path):
        check_kind(models, f"V1{manifest['kind']}", manifest, path.name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_no_mistyped_field_and_no_wrong_type_passes(models: Any, path: Path) -> None:
    count = 0
    for manifest in manifests(path):
        kind = f"V1{manifest['kind']}"
        for place in places(models, kind, manifest):
            for spoil in (misspell, mistype):
                spoilt = spoil(copy.deepcopy(manifest), place)
                with pytest.raises((AssertionError, ValueError)):
                    check_kind(models, kind, spoilt, str(place))
                count += 1
    assert count > 20


def test_a_field_that_has_to_be_there_is_missed(models: Any) -> None:
    (manifest, *_) = manifests(WORKERS / "consumer.yaml")
    del manifest["spec"]["selector"]
    with pytest.raises(ValueError, match="selector"):
        check_kind(models, "V1StatefulSet", manifest, "consumer.yaml")


def misspell(manifest: Manifest, place: Place) -> Manifest:
    """Return it with one more letter in the field at a place."""
    *way, field = place
    at: Any = manifest
    for step in way:
        at = at[step]
    at[f"{field}s"] = at.pop(field)
    return manifest


def mistype(manifest: Manifest, place: Place) -> Manifest:
    """Return it with a value of another type in the field at a place."""
    *way, field = place
    at: Any = manifest
    for step in way:
        at = at[step]
    at[field] = [{}] if not isinstance(at[field], list) else {"a": 1}
    return manifest


def places(
    models: Any, kind: str, value: Any, way: tuple[str | int, ...] = ()
) -> Iterator[tuple[str | int, ...]]:
    """Yield where fields are whose names the schema knows: not the keys of labels and the like."""
    found = PART.fullmatch(kind)
    if found:
        for key, each in enumerate(value) if found[1].lower() == "list" else value.items():
            yield from places(models, found[2], each, (*way, key))
    elif hasattr(models, kind):
        model = getattr(models, kind)
        names = {written: ours for ours, written in model.attribute_map.items()}
        for key, each in value.items():
            yield (*way, key)
            yield from places(models, model.openapi_types[names[key]], each, (*way, key))


PART = re.compile(r"(list|dict)[\[(](?:str, )?(.+)[\])]", re.IGNORECASE)


def check_kind(models: Any, kind: str, value: Any, where: str) -> None:
    """Check a value against a type of Kubernetes' schema: no field too many or too few, each of its type."""
    found = PART.fullmatch(kind)
    if found:
        assert isinstance(value, list if found[1].lower() == "list" else dict), where
        parts: Any = enumerate(value) if isinstance(value, list) else value.items()
        for key, each in parts:
            check_kind(models, found[2], each, f"{where}[{key}]")
    elif kind in PYTHON_TYPES:
        assert isinstance(value, PYTHON_TYPES[kind]), where  # type: ignore[arg-type]  # A tuple is fine.
        assert kind == "bool" or not isinstance(value, bool), where
    elif kind == "object":
        assert isinstance(value, str | int | float), where  # A quantity, or a number or a name of a port.
    elif kind != "datetime":
        model = getattr(models, kind)
        names = {written: ours for ours, written in model.attribute_map.items()}
        assert isinstance(value, Mapping), where
        for key, each in value.items():
            assert key in names, f"{where}.{key} is no field of {kind}"
            check_kind(models, model.openapi_types[names[key]], each, f"{where}.{key}")
        model(**{names[key]: each for key, each in value.items()})  # ValueError: a field is missing.

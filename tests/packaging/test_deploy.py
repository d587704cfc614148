"""What is in deploy/: alerts, dashboard, systemd unit and manifests name what this broker has."""

import configparser
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kohort.broker.config.serve import load_serve_config
from kohort.broker.http.families import FAMILIES
from kohort.broker.main import parse
from kohort.cli.queue_families import FAMILIES as QUEUE_FAMILIES
from kohort.observe.families import FAMILIES as OBSERVE_FAMILIES

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = [DEPLOY / "kubernetes" / name for name in ("service.yaml", "statefulset.yaml")]
METRIC = re.compile(r"\b((?:kohort|kafka|kminion|burrow)_[a-z_]+)")
SUFFIXES = ("_bucket", "_sum", "_count")
LABELS = {each.name: {*each.labels, "job", "instance"} for each in (*FAMILIES, *QUEUE_FAMILIES)}
LABELS |= {each.name: {*each.labels, "cluster", "job", "instance"} for each in OBSERVE_FAMILIES}
DASHBOARDS = {"kohort": 20, "kohort-observe": 12}
PYTHON_TYPES = {"str": str, "int": int, "bool": bool, "float": (int, float)}


def alerts() -> list[dict[str, Any]]:
    found = yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))
    return [rule for group in found["groups"] for rule in group["rules"]]


def dashboard(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (DEPLOY / f"grafana/dashboards/{name}.json").read_text(encoding="utf-8")
    )
    return found


def family(name: str) -> str:
    """Return the metric that a series belongs to."""
    if name in LABELS:
        return name
    return next((name.removesuffix(each) for each in SUFFIXES if name.removesuffix(each) in LABELS), name)


def check_expression(expression: str) -> None:
    """Check that its metrics exist, and have the labels that it chooses by."""
    named = METRIC.findall(re.sub(r'"[^"]*"', '""', expression))
    assert all(family(each) in LABELS for each in named), expression
    for name, chosen in re.findall(METRIC.pattern + r"\{([^}]*)\}", expression):
        labels = set(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", chosen))
        assert labels <= LABELS[family(name)], expression


def test_alerts_name_existing_metrics_and_describe_the_problem() -> None:
    for rule in alerts():
        check_expression(rule["expr"])
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert "{{" in rule["annotations"]["summary"]
        told = set(re.findall(r"\$labels\.([a-z_]+)", json.dumps(rule["annotations"])))
        known = {"instance"}.union(*(LABELS[family(each)] for each in METRIC.findall(rule["expr"])))
        assert told <= known, rule["alert"]
    names = [rule["alert"] for rule in alerts()]
    assert len(names) == len(set(names))


def test_promtool_accepts_the_alerts() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    subprocess.run([promtool, "check", "rules", DEPLOY / "alerts.yml"], check=True, timeout=60)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_draws_metrics_that_there_are(name: str) -> None:
    panels = dashboard(name)["panels"]
    drawn = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert len(drawn) >= DASHBOARDS[name]
    for expression in drawn:
        check_expression(expression)
    assert len({panel["id"] for panel in panels}) == len(panels)
    for variable in dashboard(name)["templating"]["list"]:
        check_expression(variable["definition"])
    uid = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yml").read_text("utf-8"))
    assert {panel["datasource"]["uid"] for panel in panels if "targets" in panel} == {
        uid["datasources"][0]["uid"]
    }


def test_the_service_of_systemd_starts_a_broker_with_options_that_exist() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # Names have capital letters.
    unit.read(DEPLOY / "kohort.service")
    service = unit["Service"]
    for key in ("ExecStart", "ExecStartPre"):
        program, command, *options = service[key].split()
        assert (program, command) == ("/opt/kohort/bin/kohort", "serve")
        assert parse(options).config_file == Path("/etc/kohort/kohort.toml")
    assert service["DynamicUser"] == "yes"
    loaded = load_serve_config(DEPLOY / "kohort.toml", ())
    assert loaded.flags["data"].startswith(service["WorkingDirectory"])


def test_systemd_finds_no_fault_in_it() -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd is not installed")
    done = subprocess.run(
        [analyze, "verify", DEPLOY / "kohort.service"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    complaints = [line for line in done.stderr.splitlines() if "kohort.service" in line]
    assert [line for line in complaints if "is not executable" not in line] == []


def test_the_manifests_start_a_broker_with_options_that_exist() -> None:
    service, stateful = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in MANIFESTS)
    container = stateful["spec"]["template"]["spec"]["containers"][0]
    command, *options = container["args"]
    assert command == "serve"
    found = parse(options)
    assert str(found.places.advertise) == f"{service['metadata']['name']}:9092"
    assert ("kohort.http.allowed.hosts", service["metadata"]["name"]) in found.settings
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"kafka": found.places.listen.port, "http": found.http.port}
    assert {each["targetPort"]: each["port"] for each in service["spec"]["ports"]} == ports
    assert any(str(found.places.data).startswith(each["mountPath"]) for each in container["volumeMounts"])
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == stateful["spec"]["selector"]["matchLabels"] == labels
    kustomization = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text(encoding="utf-8"))
    assert {*kustomization["resources"]} == {path.name for path in MANIFESTS}


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_the_manifests_follow_the_kubernetes_schema(path: Path) -> None:
    if "KOHORT_TEST_APPLICATIONS" not in os.environ:
        pytest.skip("the schema is a package of its own: make applications runs it")
    from kubernetes.client import models  # type: ignore[import-not-found]  # See above.

    manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
    check_kind(models, f"V1{manifest['kind']}", manifest, path.name)


def check_kind(models: Any, kind: str, value: Any, where: str) -> None:
    """Check a value against a type of Kubernetes' OpenAPI schema: no field too many, each of its type."""
    found = re.fullmatch(r"(list|dict)[\[(](?:str, )?(.+)[\])]", kind, re.IGNORECASE)
    if found:
        assert isinstance(value, list if found[1].lower() == "list" else dict), where
        parts = enumerate(value) if found[1].lower() == "list" else value.items()
        for key, each in parts:
            check_kind(models, found[2], each, f"{where}[{key}]")
    elif kind in PYTHON_TYPES:
        assert isinstance(value, PYTHON_TYPES[kind]), where  # type: ignore[arg-type]  # A tuple is fine.
    elif kind not in {"object", "datetime"}:
        model = getattr(models, kind)
        names = {written: ours for ours, written in model.attribute_map.items()}
        for key, each in value.items():
            assert key in names, f"{where}.{key} is no field of {kind}"
            check_kind(models, model.openapi_types[names[key]], each, f"{where}.{key}")

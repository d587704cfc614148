"""What is in deploy/: alerts, dashboards and systemd unit name what kohort has."""

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from kohort.broker.config.serve import load_serve_config
from kohort.broker.http.families import FAMILIES
from kohort.broker.main import parse
from kohort.cli import forward_run, queue_run, queue_track, region_run
from kohort.cli.queue_families import FAMILIES as QUEUE_FAMILIES
from kohort.cli.region_served import ServedCoordinator
from kohort.client import ConsumerRecord
from kohort.client.config import ConsumerOptions
from kohort.observe.families import FAMILIES as OBSERVE_FAMILIES
from kohort.queues.forward import ForwardSettings
from kohort.queues.kmq import Queue, QueueWorker, RedeliveryTracker
from kohort.queues.region import Region, RegionCoordinator, RegionMember

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
METRIC = re.compile(r"\b((?:kohort|kafka|kminion|burrow)_[a-z_]+)")
SUFFIXES = ("_bucket", "_sum", "_count")
DASHBOARDS = sorted((DEPLOY / "grafana/dashboards").glob("*.json"))
LABELS = {each.name: {*each.labels, "job", "instance"} for each in (*FAMILIES, *QUEUE_FAMILIES)}
DRAWN_MIN = {"kohort": 20, "kohort-observe": 12}
LABELS |= {each.name: {*each.labels, "cluster", "job", "instance"} for each in OBSERVE_FAMILIES}


def alerts() -> list[dict[str, Any]]:
    found = yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))
    return [rule for group in found["groups"] for rule in group["rules"]]


def dashboard(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def drawn(path: Path) -> list[str]:
    """Return the expressions of a dashboard's panels."""
    return [target["expr"] for panel in dashboard(path)["panels"] for target in panel.get("targets", ())]


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


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_the_dashboards_draw_metrics_that_there_are(path: Path) -> None:
    panels = dashboard(path)["panels"]
    expressions = drawn(path)
    assert len(expressions) >= DRAWN_MIN.get(path.stem, 10)
    for expression in expressions:
        check_expression(expression)
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert_legends_name_labels(panel)
    for variable in dashboard(path)["templating"]["list"]:
        check_expression(variable["definition"])
    uid = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yml").read_text("utf-8"))
    assert {panel["datasource"]["uid"] for panel in panels if "targets" in panel} == {
        uid["datasources"][0]["uid"]
    }


def assert_legends_name_labels(panel: dict[str, Any]) -> None:
    """Check that a legend names labels that the expression keeps: an empty legend helps nobody."""
    for target in panel.get("targets", ()):
        kept = {
            name for names in re.findall(r"\bby \(([^)]*)\)", target["expr"]) for name in names.split(", ")
        }
        told = set(re.findall(r"{{([a-z_]+)}}", target["legendFormat"]))
        known = {name for each in METRIC.findall(target["expr"]) for name in LABELS.get(family(each), ())}
        assert told <= (kept or known | {"instance", "le"}), (panel["title"], target)


def test_each_dashboard_has_an_id_and_a_title_of_its_own() -> None:
    for key in ("uid", "title"):
        assert len({dashboard(path)[key] for path in DASHBOARDS}) == len(DASHBOARDS) >= 5


def test_every_metric_of_queues_proxies_and_regions_is_drawn() -> None:
    named = {family(each) for path in DASHBOARDS for text in drawn(path) for each in METRIC.findall(text)}
    assert {each.name for each in QUEUE_FAMILIES} <= named


def test_the_workers_export_these_metrics_and_no_others() -> None:
    options: ConsumerOptions = {"bootstrap_servers": "127.0.0.1:1"}

    async def exported() -> set[str]:
        region, queue = Region("sums", members=1), Queue("orders")
        coordinator = RegionCoordinator(region, **options)
        member = RegionMember(region, "a", Operator(), topics=["t"], **options)
        workers = (
            queue_track._Served(RedeliveryTracker(queue, **options)),
            queue_run._Served(QueueWorker(queue, Operator().process, **options)),
            forward_run._Served(forward_run.Forwarders(ForwardSettings(), options)),
            region_run._Served(member),
            ServedCoordinator(coordinator),
        )
        found = [each for worker in workers for each in worker.metrics()]
        return {f"{each.name}_total" if each.type == "counter" else each.name for each in found}

    assert anyio.run(exported, backend="trio") == {each.name for each in QUEUE_FAMILIES}


class Operator:
    async def process(self, record: ConsumerRecord[bytes, bytes]) -> None:
        """Do nothing."""

    def save(self, sequence_id: int) -> bytes:
        return b""

    def restore(self, state: bytes | None) -> None:
        """Do nothing."""


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

"""The page of metrics as Prometheus' tools want it, and under the names that dashboards for Kafka know.

The rules are those of `promtool check metrics`; the names are jmx_exporter's and kafka_exporter's.
"""

from __future__ import annotations

import re
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from kohort.broker.http.families import FAMILIES
from kohort.client import Consumer, Producer
from kohort.testing import Broker

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
Parse = Callable[[str], Iterator[Metric]]
FORMATS = pytest.mark.parametrize(
    ("accept", "parse"),
    [("text/plain", parse_plain), (OPENMETRICS, parse_openmetrics)],
    ids=["plain", "open"],
)
OURS = ("kohort_", "kafka_")
BEANS = Path(__file__).with_name("kafka-4.4-mbeans.tsv")
KAFKA_EXPORTER = {
    "kafka_brokers",
    "kafka_consumergroup_current_offset",
    "kafka_consumergroup_current_offset_sum",
    "kafka_consumergroup_lag",
    "kafka_consumergroup_lag_sum",
    "kafka_consumergroup_members",
    "kafka_topic_partition_current_offset",
    "kafka_topic_partition_in_sync_replica",
    "kafka_topic_partition_leader",
    "kafka_topic_partition_oldest_offset",
    "kafka_topic_partition_replicas",
    "kafka_topic_partition_under_replicated_partition",
    "kafka_topic_partitions",
}
RESERVED = ("_bucket", "_count", "_sum", "_created", "_info")
OTHER_UNITS = re.compile(
    r"_(ms|millis|milliseconds|minutes|hours|kb|mb|kib|mib|kilobytes|megabytes|percent)\b"
)
TYPES = re.compile(r"_(gauge|counter|histogram|summary)(_|$)")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One with records, a group that is behind and another that has a member."""
    with Broker(http=True, topics={"orders": 3, "a.b": 1}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(9):
                producer.send("orders", value=b"x", partition=number % 3)
        with Consumer(
            "orders", bootstrap_servers=broker.bootstrap, group_id='a"\\b', auto_offset_reset="earliest"
        ) as consumer:
            broker.until(lambda: consumer.poll(timeout_ms=100))
            consumer.commit()
            broker.until(lambda: "kafka_consumergroup_lag{" in page(broker, "text/plain"))
            yield broker


def page(broker: Broker, accept: str) -> str:
    request = urllib.request.Request(f"{broker.http}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.read().decode())


@FORMATS
def test_each_metric_family_has_one_help_and_each_series_appears_once(
    broker: Broker, accept: str, parse: Parse
) -> None:
    text = page(broker, accept)
    families = list(parse(text))
    assert len(families) > 80
    assert all(count == 1 for count in Counter(each.name for each in families).values())
    assert all(each.documentation for each in families)
    series = Counter(
        (each.name, *sorted(each.labels.items())) for found in families for each in found.samples
    )
    assert [name for name, count in series.items() if count > 1] == []
    announced = Counter(re.findall(r"^# (?:HELP|TYPE) \S+", text, re.MULTILINE))
    assert set(announced.values()) == {1}


@FORMATS
def test_every_series_is_declared(broker: Broker, accept: str, parse: Parse) -> None:
    declared = {each.name.removesuffix("_total"): set(each.labels) for each in FAMILIES}
    shown = [each for each in parse(page(broker, accept)) if each.name.startswith(OURS)]
    assert {each.name for each in shown} <= {*declared, *(each.name for each in FAMILIES)}
    for family in shown:
        for sample in family.samples:
            labels = set(sample.labels) - {"le"}
            assert labels == declared[family.name.removesuffix("_total")], sample


@pytest.mark.parametrize("family", FAMILIES, ids=lambda each: each.name)
def test_metric_names_follow_promtool(family: object) -> None:
    name, kind, labels, documentation = family  # type: ignore[misc]
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    assert documentation
    assert not {"le", "quantile", "job", "instance"} & set(labels)
    assert all(re.fullmatch(r"[a-z][a-z_]*", each) for each in labels)
    if name in KAFKA_EXPORTER or name in of_kafka():
        return  # Those who have named it are not asked again.
    assert name.startswith("kohort_"), "it is in nobody's list"
    assert name.endswith("_total") == (kind == "counter")
    assert not name.endswith(RESERVED) or name == "kohort_info"
    assert not OTHER_UNITS.search(name)
    assert not TYPES.search(name)


def test_every_metric_with_a_kafka_name_exists_in_kafka() -> None:
    named = {each.name for each in FAMILIES if each.name.startswith("kafka_")}
    assert named - KAFKA_EXPORTER <= of_kafka()
    assert named & KAFKA_EXPORTER == KAFKA_EXPORTER


def of_kafka() -> set[str]:
    """Return what jmx_exporter, in small letters, makes of Kafka's MBeans."""
    found = set()
    for line in BEANS.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        domain, kind, name, attribute, _ = line.split("\t")
        plain = re.sub(r"[^a-z0-9]", "_", f"{domain}_{kind}_{name or attribute}".lower())
        found.add(plain)
        if name and attribute == "Count":
            found |= {f"{plain}_count", f"{plain.removesuffix('persec')}_total"}
    return found

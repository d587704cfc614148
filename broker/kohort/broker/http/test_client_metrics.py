"""What clients send, on the metrics page: bounded by what is kept, and never under a name of the broker's."""

from collections.abc import Iterable

import pytest
from prometheus_client import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics_exposition
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector, CollectorRegistry

from kohort.broker.http import families
from kohort.broker.http.client_metrics import client_series
from kohort.broker.telemetry.otlp import Attributes
from kohort.broker.telemetry.reports import ClientValues
from kohort.protocol.metric_family import Family

OWN = {"client_id": "billing-1", "client_instance_id": "i", "group_id": "billing"}
Series = tuple[str, Attributes, float, bool]


def sent(*series: Series) -> ClientValues:
    values = {(name, attributes): (value, is_sum) for name, attributes, value, is_sum in series}
    return ClientValues("i", "billing-1", "billing", values)


def _samples(found: Iterable[Metric]) -> list[tuple[str, dict[str, str], float]]:
    return sorted(
        ((each.name, each.labels, each.value) for family in found for each in family.samples), key=repr
    )


class Page(Collector):
    def __init__(self, *series: Series) -> None:
        self.clients = [sent(*(each for each in series if each[3] is is_sum)) for is_sum in (False, True)]

    def collect(self) -> list[Metric]:
        return list(client_series(self.clients))

    def samples(self) -> list[tuple[str, dict[str, str], float]]:
        """Return every sample, of which both formats have the same."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        text = generate_latest(registry).decode()
        modern = openmetrics_exposition.generate_latest(registry).decode()  # type: ignore[no-untyped-call]
        new = openmetrics_parser.text_string_to_metric_families(modern)  # type: ignore[no-untyped-call]
        found = [_samples(each) for each in (text_string_to_metric_families(text), new)]
        assert found[0] == found[1]
        keys = [(name, tuple(sorted(labels.items()))) for name, labels, _ in found[0]]
        assert len(keys) == len(set(keys))
        return found[0]


def test_names_of_kafka_stay_and_others_get_a_prefix() -> None:
    samples = Page(
        ("org.apache.kafka.consumer.commit.latency.avg", (), 2.0, False),
        ("org.apache.kafka.consumer.commit.total", (("topic", "t"),), 3.0, True),
        ("my.metric", (("topic", "t"),), 4.0, False),
    ).samples()
    assert samples == [
        ("client_my_metric", {**OWN, "topic": "t"}, 4.0),
        ("org_apache_kafka_consumer_commit_latency_avg", OWN, 2.0),
        ("org_apache_kafka_consumer_commit_total", {**OWN, "topic": "t"}, 3.0),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "up",
        "kohort.ready",
        "kafka.consumergroup.lag",
        "kafka.consumergroup.lag.total",
        "org_apache_kafka_x",
        "org.apache.kafkas.x",
        "process.cpu.seconds.total",
        "1x",
        "_",
        "\n# EOF",
        "ärger",
        "total",
        "",
    ],
)
@pytest.mark.parametrize("is_sum", [False, True])
def test_no_name_of_a_client_is_one_of_the_broker(name: str, is_sum: bool) -> None:
    ((found, labels, value),) = Page((name, (), 1.0, is_sum)).samples()
    assert found == "client" or found.startswith("client_")
    assert (labels, value) == (OWN, 1.0)


def test_no_family_of_the_broker_has_a_prefix_of_clients() -> None:
    ours = [each.name for each in vars(families).values() if isinstance(each, Family)]
    ours += [each.name for each in (*families.QUOTA_USES.values(), *families.QUOTA_THROTTLES.values())]
    assert len(ours) > 50
    assert not [each for each in ours if each.startswith(("client", "org_"))]


@pytest.mark.parametrize(
    "name, label",
    [
        ("topic", "topic"),
        ("node-id", "node_id"),
        ("__name__", "attribute___name__"),
        ("__", "attribute___"),
        ("_x", "attribute__x"),
        ("9x", "attribute_9x"),
        ("", "attribute_"),
        ("ä", "attribute__"),
        ("job", "attribute_job"),
        ("instance", "attribute_instance"),
        ("le", "attribute_le"),
        ("quantile", "attribute_quantile"),
        ("client_id", "attribute_client_id"),
        ("client.instance.id", "attribute_client_instance_id"),
        ("group_id", "attribute_group_id"),
    ],
)
def test_no_attribute_of_a_client_is_a_label_of_another_meaning(name: str, label: str) -> None:
    ((_, labels, _),) = Page(("x", ((name, 'va"l\n'),), 1.0, False)).samples()
    assert labels == {**OWN, label: 'va"l\n'}


@pytest.mark.parametrize("prefix", ["x", "org.apache.kafka.x"])
def test_names_that_become_one_make_neither_a_family_nor_a_sample_twice(prefix: str) -> None:
    """`Page.samples` compares what the parsers of both formats find."""
    names = ("", ".total", "_total", ".total.total", ".created", ".created.total", "_created_")
    every = [(prefix + each, (), 1.0, is_sum) for each in names for is_sum in (False, True)]
    samples = Page(*every).samples()
    base = "client_x" if prefix == "x" else "org_apache_kafka_x"
    assert {name for name, _, _ in samples} == {
        base,
        f"{base}_total",
        f"{base}_created_",
        f"{base}_created__total",
    }
    assert Page(("a", (("x.y", "1"), ("x_y", "2")), 1.0, True)).samples()[0][1]["x_y"] in ("1", "2")


def test_each_series_has_only_labels_of_its_own() -> None:
    every = [("x", tuple((f"label_{each}_{n}", "v") for n in range(16)), 1.0, False) for each in range(500)]
    samples = Page(*every).samples()
    assert len(samples) == 500
    assert {len(labels) for _, labels, _ in samples} == {16 + len(OWN)}

"""A cluster that wants TLS and a password, for everything of the pipeline that speaks to brokers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kohort.client import NewTopic, TopicPartition
from kohort.client.errors import AuthenticationError
from kohort.pipeline.brokers import Brokers
from kohort.pipeline.ingest import ingest, reconcile
from kohort.pipeline.replaying import replay, write_to_topic
from kohort.pipeline.servers import Servers
from tests.security.guarded import PASSWORD, PLAIN_USERS, USER, Guarded, guarded
from tests.spark.topics import values

ROWS = 100
SETTINGS = ("sasl.enabled.mechanisms=PLAIN", f"sasl.jaas.config={PLAIN_USERS}")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A broker that wants to know who comes."""
    with guarded(tmp_path_factory.mktemp("guarded"), *SETTINGS) as made:
        yield made


@pytest.fixture(scope="module")
def servers(here: Guarded) -> Servers:
    """Where it is, and what it wants."""
    secure = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
        "ssl_truststore_location": str(here.trusted),
    }
    found = Servers(here.at("SASL_SSL"), secure)
    with found.admin() as admin:
        admin.create_topics(NewTopic("flights", 2), NewTopic("again", 2))
    return found


def test_a_driver_authenticates_to_a_secured_broker(servers: Servers) -> None:
    with Brokers(servers, 10_000) as brokers:
        assert brokers.partitions(["flights"]) == [TopicPartition("flights", 0), TopicPartition("flights", 1)]
    guessed = Servers(servers.bootstrap, {**servers.settings, "sasl_plain_password": "a guess"})
    with (
        Brokers(guessed, 10_000) as wrong,
        pytest.raises(AuthenticationError, match=f"does not let this client in as '{USER}'"),
    ):
        wrong.retrying(lambda: wrong.partitions(["flights"]))


def test_topics_are_written_read_ingested_and_replayed(
    servers: Servers, spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.range(ROWS, numPartitions=2).selectExpr("cast(id as string) as value")
    frame.write.format("kohort").options(**servers.options()).option("topic", "flights").mode("append").save()
    stream = spark.readStream.format("kohort").options(**servers.options()).option("topics", "flights")
    stream = stream.option("starting", "earliest")
    where = (str(tmp_path / "table"), str(tmp_path / "checkpoint"), "mirror", servers)
    with ingest(stream.load(), *where) as job:
        job.wait()
        assert job.stop().rows == ROWS
    assert all(each.step.value == "stay" for each in reconcile(*where[1:]).rows)
    write_to_topic(replay(spark, servers, ["flights"], ending="group:mirror"), servers, "again")
    again = spark.read.format("kohort").options(**servers.options()).option("topics", "again").load()
    assert values(again) == list(range(ROWS))


def test_the_command_line_reads_a_client_properties_file(servers: Servers, tmp_path: Path) -> None:
    (tmp_path / "commits").mkdir()
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{"batchWatermarkMs":0}\n{"flights":{"0":40,"1":7}}')
    (tmp_path / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    file = tmp_path / "client.properties"
    lines = [f"{name.replace('_', '.')}={value}" for name, value in servers.settings.items()]
    lines[2:4] = [
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"
        f' username="{USER}" password="{PASSWORD}";'
    ]
    file.write_text("\n".join(lines))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "kohort.cli", "spark", "reconcile", str(tmp_path), "--group", "told"),
            *("-b", servers.bootstrap, "--command-config", str(file), "--execute", "--json"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert [each["checkpoint"] for each in json.loads(done.stdout)] == [40, 7]
    with servers.admin() as admin:
        assert {each.partition: found.offset for each, found in admin.list_group_offsets("told").items()} == {
            0: 40,
            1: 7,
        }

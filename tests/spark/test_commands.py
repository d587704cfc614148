"""`kohort spark` as people call it: a process, its words and its exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kohort.client import Admin, OffsetAndMetadata, TopicPartition
from tests.interop.broker_process import BrokerProcess
from tests.spark.ingest_driver import PATIENCE_S, until
from tests.spark.ingest_world import only_large
from tests.spark.topics import Topics, numbered

NO_REPOSITORY = """<ivysettings><settings defaultResolver="none"/>
<resolvers><filesystem name="none"><artifact pattern="/no/such/[artifact].jar"/></filesystem></resolvers>
</ivysettings>"""


def kohort(bootstrap: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kohort.cli", "spark", *words]
    named = {"KOHORT_BOOTSTRAP_SERVERS": bootstrap} | environment
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env=os.environ | named
    )


def start(bootstrap: str, *words: str) -> subprocess.Popen[str]:
    """Start a command that goes on."""
    command = [sys.executable, "-m", "kohort.cli", "spark", *words]
    named = {"KOHORT_BOOTSTRAP_SERVERS": bootstrap}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | named
    )


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint of Spark's own connector, by hand: batch 0 is committed, batch 1 is not."""
    for batch, ends in enumerate(('{"air":{"0":40,"1":7}}', '{"air":{"0":90,"1":90}}')):
        path = tmp_path / "offsets" / str(batch)
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'v1\n{{"batchWatermarkMs":0}}\n{ends}')
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    return tmp_path


def test_reconcile_shows_a_plan_and_changes_with_execute(
    bootstrap: str, topics: Topics, checkpoint: Path
) -> None:
    topics.make_named("air", 2)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets("mirror", {TopicPartition("air", 1): OffsetAndMetadata(9)})
        words = ("reconcile", str(checkpoint), "--group", "mirror")
        shown = kohort(bootstrap, *words)
        assert shown.returncode == 0, shown.stderr
        assert [line.split() for line in shown.stdout.splitlines()[1:]] == [
            ["air", "0", "40", "-", "forward"],
            ["air", "1", "7", "9", "back"],
        ]
        assert "Nothing was changed" in shown.stderr
        refused = kohort(bootstrap, *words, "--execute")
        assert refused.returncode == 1
        assert "is ahead of Spark's checkpoint" in refused.stderr
        assert kohort(bootstrap, *words, "--execute", "--backwards").returncode == 0
        found = {each.partition: value.offset for each, value in admin.list_group_offsets("mirror").items()}
    assert found == {0: 40, 1: 7}


def test_reconcile_names_a_missing_commit(bootstrap: str, tmp_path: Path) -> None:
    done = kohort(bootstrap, "reconcile", str(tmp_path), "--group", "mirror")
    assert done.returncode == 1
    assert done.stderr == f"kohort: {tmp_path} has no batch that Spark has committed\n"


def test_a_missing_alert_topic_is_reported_before_spark_starts(bootstrap: str) -> None:
    done = kohort(bootstrap, "alerts", "--to-topic", "nosuch")
    assert done.returncode == 1
    assert done.stderr == "kohort: there is no topic 'nosuch' to write alerts to: create it first\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("ingest", "nosuch", "--to", "{new}", "--group", "g"), "there is no topic 'nosuch'"),
        (("ingest", "{topic}", "--to", "{new}", "--group", "g", "--from", "now"), "--from is 'now': give"),
        (
            ("ingest", "{topic}", "--to", "{new}", "--group", "g", "--format", "iceberg"),
            "'{new}' is no name of an Iceberg table: give CATALOG.NAMESPACE.TABLE, with a catalog of",
        ),
        (
            ("ingest", "{topic}", "--to", "nowhere.a.b", "--group", "g", "--format", "iceberg"),
            "pyiceberg cannot open the catalog nowhere: ",
        ),
        (("ingest", "{topic}", "--to", "{new}", "--group", "g", "--format", "csv"), "'csv' is no format"),
        (("replay", "nosuch", "{topic}", "--to", "{new}"), "there is no topic 'nosuch'"),
        (("replay", "{topic}", "--to-topic", "nosuch"), "there is no topic 'nosuch'"),
        (("replay", "{topic}", "--to", "{there}"), "--to: {there} is there already; give a folder"),
        (("replay", "{topic}", "--to", "{new}", "--until", "group:g@noon"), "--until: 'noon' is no time"),
        (("analyse", "--since", "yesterday"), "--since: 'yesterday' is no time: give 2026-01-31T12:00:00Z"),
        (("audit", "{there}"), "{there} holds no segments"),
    ],
)
def test_wrong_arguments_are_reported_before_spark_starts(
    bootstrap: str, topics: Topics, tmp_path: Path, words: tuple[str, ...], error: str
) -> None:
    names = {"topic": topics.make(), "new": str(tmp_path / "new"), "there": str(tmp_path)}
    nowhere = {"SPARK_HOME": str(tmp_path)}  # Whoever starts it from there fails.
    done = kohort(bootstrap, *(each.format(**names) for each in words), **nowhere)
    assert done.returncode == 1, done.stdout
    assert done.stderr.startswith(f"kohort: {error.format(**names)}"), done.stderr
    assert done.stderr.count("\n") == 1


def test_unavailable_jars_are_reported_in_one_line(bootstrap: str, topics: Topics, tmp_path: Path) -> None:
    settings = tmp_path / "ivy.xml"
    settings.write_text(NO_REPOSITORY)
    nowhere = ["packages=no.such:package:1", f"ivySettings={settings}", f"ivy={tmp_path}"]
    words = ["ingest", topics.make(), "--to", str(tmp_path / "t"), "--group", "g"]
    words += [word for each in nowhere for word in ("--conf", f"spark.jars.{each}")]
    done = kohort(bootstrap, *words)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("kohort: Spark did not start: its launcher says above why. It was to fetch")


@only_large
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_alerts_are_printed_and_summed_up_at_a_stop(
    bootstrap: str, topics: Topics, how: signal.Signals
) -> None:
    topic, alerts = topics.make(), topics.make()
    topics.fill(topic, numbered(10))
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(topic, {TopicPartition(topic, 0): OffsetAndMetadata(4)})
    process = start(bootstrap, "alerts", "--to-topic", alerts, "--every", "0.5", "--for", "150")
    assert process.stdout is not None
    expected = f"  {topic}  OK -> STOP  lag 6 ({topic}-0)\n"
    assert any(expected in line for line in process.stdout), process.communicate()[1]
    process.send_signal(how)
    _, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, told
    assert re.search(rf"STOP\) written to {alerts}; looked \d+ times in \d+ s at \d+ group", told), told


@only_large
def test_a_continuous_ingest_stops_cleanly(bootstrap: str, topics: Topics, tmp_path: Path) -> None:
    topic = topics.make(2)
    topics.fill(topic, numbered(300, partitions=2))
    ends = {TopicPartition(topic, number): 150 for number in range(2)}
    process = start(
        bootstrap, "ingest", topic, "--to", str(tmp_path / "t"), "--group", topic, "--every", "1 second"
    )
    with Admin(bootstrap_servers=bootstrap) as admin:

        def is_told() -> bool:
            assert process.poll() is None
            found = admin.list_group_offsets(topic)
            return {each: value.offset for each, value in found.items()} == ends

        until(is_told)
    process.send_signal(signal.SIGINT)
    said, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, told
    assert said.startswith("300 rows written, 300 in the table from 2 partitions")
    assert said.endswith(f"group {topic} is where the checkpoint is\n")


@only_large
def test_ingest_replay_audit_and_analyse_print_their_results(
    bootstrap: str, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(2)
    topics.fill(topic, numbered(300, partitions=2))
    table = str(tmp_path / "table")
    done = kohort(bootstrap, "ingest", topic, "--to", table, "--group", "spark", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["rows"], told["group"]["error"]) == (300, None)
    noise = ("WARN ", "log level", "log4j", "Traceback", "BrokenPipe")
    assert not [line for line in done.stderr.splitlines() if any(each in line for each in noise)]
    done = kohort(bootstrap, "replay", topic, "--to", str(tmp_path / "again"), "--until", "group:spark")
    assert done.stdout.startswith("300 records written"), done.stderr
    done = kohort(
        bootstrap, "replay", topic, "--to", str(tmp_path / "more"), "--until", "group:spark", "--json"
    )
    assert json.loads(done.stdout) == {"rows": 300, "repeated": 0, "written_to": str(tmp_path / "more")}
    again = topics.make(1)
    for written, there in ((300, 0), (0, 300)):
        command = ("replay", topic, "--to-topic", again, "--until", "group:spark", "--name", "once")
        done = kohort(bootstrap, *command)
        lines = [f"{written} records written to {again}"]
        lines += [f"{there} were there already, written under the name 'once' before"] * bool(there)
        assert done.stdout.splitlines() == lines, done.stderr
    done = kohort(bootstrap, "audit", str(broker.data), "--topic", topic, "--deep")
    assert done.returncode == 0, done.stdout
    assert "300 records" in done.stdout
    page = tmp_path / "groups.html"
    done = kohort(bootstrap, "analyse", "--group", "spark", "--report", str(page))
    assert done.returncode == 0, done.stderr
    assert f"spark  {topic}-0  lag 0  OK" in done.stdout
    assert page.exists()
    done = kohort(bootstrap, "analyse", "--group", "spark", "--report", str(page), "--json")
    found = json.loads(done.stdout)
    assert [(each["partition"], each["lag"]) for each in found["standings"]] == [(0, 0), (1, 0)]
    assert found["report"] == str(page)
    damaged = next((broker.data / f"{topic}-0").glob("*.log"))
    copied = tmp_path / "copy" / f"{topic}-0"
    copied.mkdir(parents=True)
    (copied / damaged.name).write_bytes(damaged.read_bytes()[:-3])
    done = kohort(bootstrap, "audit", str(copied.parent))
    assert done.returncode == 1
    assert "torn" in done.stdout

"""Apache Kafka's own command-line tools print what they print against Apache Kafka."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from kohort.broker.group import coordinator_partition
from kohort.protocol.registry import APIS
from tests.interop.broker_process import BrokerProcess
from tests.interop.clients import CLIENTS, ConsumerOptions, Outgoing, Place
from tests.interop.kafka_tools import Output, Tools
from tests.interop.members import Member, wait_until_shared

OFFSET_COLUMNS = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
MEMBER_COLUMNS = ["CONSUMER-ID", "HOST", "CLIENT-ID"]
RESET_COLUMNS = ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
NOBODY = ["-", "-", "-"]

Run = Callable[..., Output]


@pytest.fixture
def run(tools: Tools, bootstrap: str) -> Run:
    """Return a function that runs a tool against the broker."""

    def run(tool: str, *arguments: str, typed: str = "") -> Output:
        return tools.run(tool, "--bootstrap-server", bootstrap, *arguments, typed=typed)

    return run


@pytest.fixture
def topic() -> str:
    return f"cli-{uuid.uuid4().hex[:6]}"


@pytest.fixture
def read_group(run: Run, bootstrap: str, topic: str) -> str:
    """A group without members that has read and committed three records of partition 0 of two."""
    run("kafka-topics", "--create", "--topic", topic, "--partitions", "2")
    records = [Outgoing(str(index).encode(), partition=0) for index in range(3)]
    CLIENTS["confluent-kafka"].produce(bootstrap, topic, records)
    group = f"g-{topic}"
    read = run(
        "kafka-console-consumer", "--topic", topic, "--group", group, "--from-beginning",
        "--max-messages", "3", "--timeout-ms", "20000",
    )  # fmt: skip
    assert sorted(read.lines) == ["0", "1", "2"]
    return group


def sorted_rows(output: Output) -> list[list[str]]:
    """Return the table's head and then its rows in order: the tools keep none."""
    head, *rows = output.rows()
    return [head, *sorted(rows)]


def test_kafka_topics_creates_lists_describes_alters_and_deletes(run: Run, topic: str) -> None:
    created = run(
        "kafka-topics", "--create", "--topic", topic, "--partitions", "3", "--replication-factor", "1",
        "--config", "retention.ms=3600000",
    )  # fmt: skip
    assert (created.status, created.lines) == (0, [f"Created topic {topic}."])
    again = run("kafka-topics", "--create", "--topic", topic)
    assert again.status == 1
    assert f"Topic '{topic}' already exists." in again.out
    assert topic in run("kafka-topics", "--list").lines
    assert run("kafka-topics", "--alter", "--topic", topic, "--partitions", "4").status == 0
    assert run("kafka-topics", "--alter", "--topic", topic, "--partitions", "2").status == 1
    described = run("kafka-topics", "--describe", "--topic", topic)
    head, *partitions = described.lines
    assert re.fullmatch(
        rf"Topic: {topic}\tTopicId: [\w-]{{22}}\tPartitionCount: 4\tReplicationFactor: 1\tConfigs: .*", head
    )
    assert "retention.ms=3600000" in head
    assert partitions == [
        f"\tTopic: {topic}\tPartition: {index}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr:"
        for index in range(4)
    ]
    assert run("kafka-topics", "--delete", "--topic", topic).status == 0
    gone = run("kafka-topics", "--delete", "--topic", topic)
    assert gone.status == 1
    assert f"Topic '{topic}' does not exist" in gone.out


def test_the_console_tools_pass_records_on(run: Run, topic: str) -> None:
    run("kafka-topics", "--create", "--topic", topic)
    produced = run(
        "kafka-console-producer", "--topic", topic, "--reader-property", "parse.key=true",
        "--reader-property", "key.separator=:", typed="a:1\nb:2\na:3\n",
    )  # fmt: skip
    assert produced.status == 0
    read = run(
        "kafka-console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "3",
        "--formatter-property", "print.key=true", "--timeout-ms", "20000",
    )  # fmt: skip
    assert (read.status, read.lines) == (0, ["a\t1", "b\t2", "a\t3"])


def test_kafka_consumer_groups_describes_a_group_without_members(
    run: Run, read_group: str, topic: str, bootstrap: str
) -> None:
    described = run("kafka-consumer-groups", "--describe", "--group", read_group)
    assert sorted_rows(described) == [
        OFFSET_COLUMNS + MEMBER_COLUMNS,
        [read_group, topic, "0", "3", "3", "0", *NOBODY],
        [read_group, topic, "1", "0", "0", "0", *NOBODY],
    ]
    assert f"Consumer group '{read_group}' has no active members." in described.err
    members = run("kafka-consumer-groups", "--describe", "--group", read_group, "--members")
    assert members.rows() == [["GROUP", *MEMBER_COLUMNS, "#PARTITIONS"]]
    state = run("kafka-consumer-groups", "--describe", "--group", read_group, "--state")
    assert state.rows() == [
        ["GROUP", "COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"],
        [read_group, bootstrap, "(1)", "-", "Empty", "0"],
    ]
    assert read_group in run("kafka-consumer-groups", "--list").lines
    assert [read_group, "Classic"] in run("kafka-consumer-groups", "--list", "--type").rows()
    nobody = run("kafka-consumer-groups", "--describe", "--group", "nosuch")
    assert "GroupIdNotFoundException: Group nosuch not found." in nobody.out


def test_kafka_consumer_groups_describes_members_without_changes(
    run: Run, topic: str, bootstrap: str
) -> None:
    run("kafka-topics", "--create", "--topic", topic, "--partitions", "2")
    group = f"g-{topic}"
    member = Member(CLIENTS["confluent-kafka"], bootstrap, ConsumerOptions(group=group, topics=[topic]))
    try:
        wait_until_shared([member], [Place(topic, 0), Place(topic, 1)])
        assert [group, "Stable"] in run("kafka-consumer-groups", "--list", "--state").rows()
        members = run("kafka-consumer-groups", "--describe", "--group", group, "--members", "--verbose")
        head, row = members.rows()
        assert head == [
            "GROUP", *MEMBER_COLUMNS, "#PARTITIONS",
            "CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT",
        ]  # fmt: skip
        assert re.fullmatch(r"rdkafka-[0-9a-f-]{36}", row[1])
        assert row[2:] == ["/127.0.0.1", "rdkafka", "2", "-", f"{topic}:0,1", "-", "-"]
        state = run("kafka-consumer-groups", "--describe", "--group", group, "--state")
        assert state.rows()[1] == [group, bootstrap, "(1)", "range", "Stable", "1"]
        reset = run(
            "kafka-consumer-groups", "--group", group, "--reset-offsets", "--to-earliest", "--topic", topic,
            "--execute",
        )  # fmt: skip
        assert f"Assignments can only be reset if the group '{group}' is inactive" in reset.out + reset.err
        deleted = run("kafka-consumer-groups", "--delete", "--group", group)
        assert "The group is not empty." in deleted.out
        assert run("kafka-consumer-groups", "--describe", "--group", group, "--state").rows()[1][-2:] == [
            "Stable",
            "1",
        ]
    finally:
        member.close()


def test_kafka_consumer_groups_resets_and_deletes(run: Run, read_group: str, topic: str) -> None:
    reset = ("kafka-consumer-groups", "--group", read_group, "--reset-offsets", "--topic", topic)
    assert sorted_rows(run(*reset, "--to-earliest", "--dry-run")) == [
        RESET_COLUMNS,
        [read_group, topic, "0", "0"],
        [read_group, topic, "1", "0"],
    ]
    described = sorted_rows(run("kafka-consumer-groups", "--describe", "--group", read_group))
    assert described[1][3] == "3", "a dry run changes nothing"
    assert sorted_rows(run(*reset, "--shift-by", "-2", "--execute"))[1] == [read_group, topic, "0", "1"]
    described = sorted_rows(run("kafka-consumer-groups", "--describe", "--group", read_group))
    assert described[1][3:6] == ["1", "3", "2"]
    offsets = run("kafka-consumer-groups", "--group", read_group, "--delete-offsets", "--topic", topic)
    assert offsets.rows()[1:] == [
        ["TOPIC", "PARTITION", "STATUS"],
        [topic, "0", "Successful"],
        [topic, "1", "Successful"],
    ]
    deleted = run("kafka-consumer-groups", "--delete", "--group", read_group)
    assert deleted.lines == [f"Deletion of requested consumer groups ('{read_group}') was successful."]
    again = run("kafka-consumer-groups", "--delete", "--group", read_group)
    assert f"Group '{read_group}' could not be deleted due to:" in again.out
    assert "GroupIdNotFoundException" in again.out


def test_kafka_configs_describes_and_alters(run: Run, topic: str) -> None:
    run("kafka-topics", "--create", "--topic", topic, "--config", "retention.ms=3600000")
    entity = ("--entity-type", "topics", "--entity-name", topic)
    described = run("kafka-configs", "--describe", *entity)
    assert described.lines == [
        f"Dynamic configs for topic {topic} are:",
        "  retention.ms=3600000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=3600000}",
    ]
    changed = run("kafka-configs", "--alter", *entity, "--add-config", "cleanup.policy=compact")
    assert changed.lines == [f"Completed updating config for topic {topic}."]
    assert run("kafka-configs", "--alter", *entity, "--delete-config", "retention.ms").status == 0
    assert run("kafka-configs", "--describe", *entity).lines[1:] == [
        "  cleanup.policy=compact sensitive=false synonyms="
        "{DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact, DEFAULT_CONFIG:log.cleanup.policy=delete}"
    ]
    unknown = run("kafka-configs", "--alter", *entity, "--add-config", "no.such=1")
    assert unknown.status == 1
    assert "InvalidConfigurationException: Unknown topic config name: no.such" in unknown.err
    brokers = run("kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
    assert brokers.lines[0] == "All configs for broker 1 are:"
    assert any(line.startswith("  offsets.topic.num.partitions=50 ") for line in brokers.lines)


def test_kafka_configs_sets_settings_of_one_group(run: Run, group: str) -> None:
    entity = ("--entity-type", "groups", "--entity-name", group)
    setting = "consumer.session.timeout.ms"
    changed = run("kafka-configs", "--alter", *entity, "--add-config", f"{setting}=60000")
    assert changed.lines == [f"Completed updating config for group {group}."]
    assert run("kafka-configs", "--describe", *entity).lines == [
        f"Dynamic configs for group {group} are:",
        f"  {setting}=60000 sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{setting}=60000, "
        f"DEFAULT_CONFIG:group.{setting}=45000}}",
    ]
    assert run("kafka-configs", "--alter", *entity, "--delete-config", setting).status == 0
    assert run("kafka-configs", "--describe", *entity).lines[1:] == []


def test_offsets_are_got_and_records_deleted(run: Run, bootstrap: str, topic: str, tmp_path: Path) -> None:
    run("kafka-topics", "--create", "--topic", topic, "--partitions", "2")
    records = [Outgoing(b"x", partition=0) for _ in range(5)]
    CLIENTS["confluent-kafka"].produce(bootstrap, topic, records)
    assert run("kafka-get-offsets", "--topic", topic).lines == [f"{topic}:0:5", f"{topic}:1:0"]
    wanted = tmp_path / "offsets.json"
    wanted.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 3}]})
    )
    deleted = run("kafka-delete-records", "--offset-json-file", str(wanted))
    assert deleted.lines[-1] == f"partition: {topic}-0\tlow_watermark: 3"
    earliest = run("kafka-get-offsets", "--topic", topic, "--time", "earliest")
    assert earliest.lines == [f"{topic}:0:3", f"{topic}:1:0"]


def test_every_api_is_usable_by_kafkas_client(run: Run, bootstrap: str) -> None:
    printed = run("kafka-broker-api-versions")
    assert printed.lines[0].startswith(f"{bootstrap} (id: 1 rack: null")
    usable = {
        int(key): int(version)
        for key, version in re.findall(r"\w+\((\d+)\): .*\[usable: (\d+)\]", printed.out)
    }
    assert usable.keys() >= APIS.keys()


def test_kafka_log_dirs_shows_sizes(run: Run, read_group: str, topic: str) -> None:
    printed = run("kafka-log-dirs", "--describe", "--topic-list", topic)
    assert read_group
    answer = json.loads(printed.lines[-1])
    [broker] = answer["brokers"]
    [folder] = broker["logDirs"]
    sizes = {each["partition"]: each["size"] for each in folder["partitions"]}
    assert folder["error"] is None
    assert sizes.keys() == {f"{topic}-0", f"{topic}-1"}
    assert sizes[f"{topic}-0"] > 0 == sizes[f"{topic}-1"]


def test_kafka_dump_log_reads_the_data_folder(
    own_broker: BrokerProcess, tools: Tools, read_group: str, topic: str
) -> None:
    [log] = own_broker.data.rglob(f"{topic}-0/*.log")
    dumped = tools.run("kafka-dump-log", "--files", str(log), "--print-data-log")
    assert "isvalid: true" in dumped.out
    assert re.findall(r"payload: (\d)", dumped.out) == ["0", "1", "2"]
    home = coordinator_partition(read_group, 50)
    [offsets] = own_broker.data.rglob(f"__consumer_offsets-{home}/*.log")
    decoded = tools.run("kafka-dump-log", "--files", str(offsets), "--offsets-decoder")
    assert f'"group":"{read_group}"' in decoded.out
    assert re.search(rf'"topic":"{topic}","partition":0.*"offset":3', decoded.out)

"""Every setting against Apache Kafka 4.4's own: name, type, default and limits.

The table beside this file was read from Kafka's ConfigDef by reflection: kind, name, default, type, limits.
"""

from pathlib import Path

import pytest

from kohort.broker.config import BROKER_DEFINITIONS, TOPIC_DEFINITIONS, ConfigDefinition, TopicConfig, render
from kohort.broker.config.unused import unused_names

TABLE = Path(__file__).with_name("kafka-4.4-configs.tsv")
ROWS = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines()]
KAFKA = {(kind, name): (default, type_name, limits) for kind, name, default, type_name, limits in ROWS}
# What only admin clients set. Source: org.apache.kafka.server.config.QuotaConfig.
RATES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
KAFKA |= {("broker", name): (str(2**63 - 1), "LONG", "[0,...]") for name in RATES}
# The authorizer's own. Source: org.apache.kafka.metadata.authorizer.StandardAuthorizer.
KAFKA |= {
    ("broker", "super.users"): ("", "STRING", ""),
    ("broker", "allow.everyone.if.no.acl.found"): ("false", "BOOLEAN", ""),
}
OURS_ALONE = "kohort."
KAFKA_HAS = [each for each in BROKER_DEFINITIONS if not each.name.startswith(OURS_ALONE)]
DEFINITIONS = [("broker", each) for each in KAFKA_HAS] + [
    ("topic", each) for each in TopicConfig.DEFINITIONS.values()
]
TIERED = {"remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable"}
WRITTEN_OTHERWISE = {
    "group.consumer.assignors",
    "group.share.assignors",
    "group.streams.assignors",
    # Kafka takes less, and then cannot create these topics.
    "offsets.topic.segment.bytes",
    "share.coordinator.state.topic.segment.bytes",
    "transaction.state.log.segment.bytes",
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
}


@pytest.mark.parametrize("kind, definition", DEFINITIONS, ids=lambda each: getattr(each, "name", each))
def test_type_default_and_limits_are_kafkas(kind: str, definition: ConfigDefinition) -> None:
    default, type_name, limits = KAFKA[kind, definition.name]
    assert definition.type.name == type_name
    ours = render(definition.default) if definition.kafka_default is None else definition.kafka_default
    kafkas = default.removeprefix("[").removesuffix("]").replace(", ", ",")  # As Java prints a list.
    kafkas = "" if kafkas == '""' else kafkas
    assert (ours if ours is not None else "null") == kafkas
    if definition.name not in TIERED | WRITTEN_OTHERWISE:
        assert definition.validator.words == limits


def test_every_topic_setting_of_kafka_is_there() -> None:
    assert {name for kind, name in KAFKA if kind == "topic"} == set(TopicConfig.DEFINITIONS)
    assert len(TOPIC_DEFINITIONS) == len(TopicConfig.DEFINITIONS) - 1


def test_every_broker_setting_of_kafka_exists_or_is_listed_as_unused() -> None:
    ours = {each.name for each in KAFKA_HAS}
    assert not ours & unused_names()
    assert {name for kind, name in KAFKA if kind == "broker"} == ours | unused_names()


def test_topic_synonyms_are_settings_of_the_broker() -> None:
    ours = {each.name for each in BROKER_DEFINITIONS}
    for definition in TOPIC_DEFINITIONS:
        assert set(definition.synonyms) <= ours, definition.name

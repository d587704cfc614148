"""DescribeConfigs' view; the expectations were read from Apache Kafka 4.3.1 with its admin client."""

from kohort.broker.config import (
    BrokerConfig,
    ConfigEntry,
    ConfigSource,
    ConfigType,
    describe_broker,
    describe_topic,
)


def by_name(entries: list[ConfigEntry]) -> dict[str, ConfigEntry]:
    return {entry.name: entry for entry in entries}


def test_a_default_names_the_broker_setting_that_it_comes_from() -> None:
    entry = by_name(describe_topic(BrokerConfig(), {}))["segment.bytes"]
    assert entry.source is ConfigSource.DEFAULT
    assert entry.synonyms == (("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),)
    assert entry.type is ConfigType.INT
    assert not entry.read_only


def test_an_override_is_listed_before_the_settings_that_it_hides() -> None:
    broker = BrokerConfig().with_dynamic({"log.retention.ms": "5000"})
    entry = by_name(describe_topic(broker, {"retention.ms": "1000"}))["retention.ms"]
    assert (entry.value, entry.source) == ("1000", ConfigSource.TOPIC)
    assert entry.synonyms == (
        ("retention.ms", "1000", ConfigSource.TOPIC),
        ("log.retention.ms", "5000", ConfigSource.DYNAMIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    )


def test_a_coarser_setting_alone_is_no_synonym_of_the_finer_one() -> None:
    entry = by_name(describe_topic(BrokerConfig(log_retention_hours=2), {}))["retention.ms"]
    assert (entry.value, entry.source, entry.synonyms) == ("7200000", ConfigSource.DEFAULT, ())


def test_a_setting_of_the_start_has_the_static_source() -> None:
    entry = by_name(describe_broker(BrokerConfig(message_max_bytes=9)))["message.max.bytes"]
    assert (entry.value, entry.source) == ("9", ConfigSource.STATIC_BROKER)
    assert [each.source for each in entry.synonyms] == [ConfigSource.STATIC_BROKER, ConfigSource.DEFAULT]
    assert not entry.read_only


def test_a_setting_that_needs_a_restart_is_read_only() -> None:
    entries = by_name(describe_broker(BrokerConfig()))
    assert entries["num.partitions"].read_only
    assert entries["log.retention.hours"].read_only
    assert entries["log.retention.ms"].value is None


def test_internal_settings_are_not_listed() -> None:
    assert "internal.segment.bytes" not in by_name(describe_topic(BrokerConfig(), {}))
    assert len(describe_topic(BrokerConfig(), {"internal.segment.bytes": "100"})) == 37

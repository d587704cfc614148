"""The settings themselves: parsing, limits, defaults that a topic takes from its broker, dynamic layers."""

import pytest

from kohort.broker.config import (
    BROKER_DEFINITIONS,
    TOPIC_DEFINITIONS,
    BrokerConfig,
    ConfigDefinition,
    ConfigError,
    ConfigSource,
    TopicConfig,
    render,
    topic_config,
)

LONG_MAX = 2**63 - 1


def test_attributes_are_the_dotted_names_with_underscores() -> None:
    config = BrokerConfig(group_initial_rebalance_delay_ms=0)
    assert config.group_initial_rebalance_delay_ms == 0
    assert config.value("group.initial.rebalance.delay.ms") == 0
    assert config.offsets_topic_num_partitions == 50


@pytest.mark.parametrize("definition", BROKER_DEFINITIONS + TOPIC_DEFINITIONS, ids=lambda each: each.name)
def test_every_default_is_within_its_limits_and_survives_its_text_form(definition: ConfigDefinition) -> None:
    assert definition.checked(definition.default) == definition.default
    text = render(definition.default)
    assert text is None or definition.parse(text) == definition.default
    assert definition.documentation.endswith(".")


@pytest.mark.parametrize(
    "name, text, value, shown",
    [
        ("segment.bytes", " 2097152 ", 2097152, "2097152"),
        ("preallocate", "TRUE", True, "true"),
        ("retention.bytes", "007", 7, "7"),
        ("min.cleanable.dirty.ratio", "0.30", 0.3, "0.3"),
        ("min.cleanable.dirty.ratio", "1", 1.0, "1.0"),
        ("cleanup.policy", "compact, delete,compact", ("compact", "delete"), "compact,delete"),
        ("cleanup.policy", "", (), ""),
        ("flush.messages", str(LONG_MAX), LONG_MAX, "9223372036854775807"),
        ("leader.replication.throttled.replicas", "0:1,1:1", ("0:1", "1:1"), "0:1,1:1"),
    ],
)
def test_text_is_read_and_shown_as_kafka_does(name: str, text: str, value: object, shown: str) -> None:
    config = TopicConfig.parsed({name: text})
    assert config.value(name) == value
    assert render(config.value(name)) == shown


@pytest.mark.parametrize(
    "name, text, right",
    [
        ("segment.bytes", "5", "at least 1048576"),
        ("segment.bytes", "3000000000", "from -2147483648 to 2147483647"),
        ("retention.ms", "abc", "a whole number"),
        ("retention.ms", "1_000", "a whole number"),
        ("retention.ms", "٣", "a whole number"),
        ("retention.ms", "", "a whole number"),
        ("retention.ms", None, "must have a value"),
        ("preallocate", "yes", "true or false"),
        ("min.cleanable.dirty.ratio", "7", "from 0 to 1"),
        ("min.cleanable.dirty.ratio", "nan", "a number"),
        ("cleanup.policy", "compact,shred", "compact, delete"),
        ("compression.type", "brotli", "one of uncompressed"),
        ("compression.gzip.level", "0", "from 1 to 9, or -1"),
        ("follower.replication.throttled.replicas", "zz", "partition:broker"),
        ("remote.storage.enable", "true", "its own disk"),
    ],
)
def test_a_wrong_value_is_refused_with_one_line_that_names_valid_values(
    name: str, text: str | None, right: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        TopicConfig.parsed({name: text})
    message = str(refused.value)
    assert name in message
    assert right in message
    assert "\n" not in message


@pytest.mark.parametrize("text", ["localhost:8081", "http://", "http://a:b", "http://a,ftp://b", "http://a,"])
def test_what_is_no_url_of_a_registry_is_refused_and_its_password_hidden(text: str) -> None:
    name = "kohort.schema.registry.url"
    urls = "http://ada:secret@one:8081, https://two"
    assert BrokerConfig.parsed({name: urls}).kohort_schema_registry_url == urls
    with pytest.raises(ConfigError, match=r"\[hidden\].*http://127.0.0.1:8081"):
        BrokerConfig.parsed({name: text})
    assert urls not in repr(BrokerConfig.parsed({name: urls}))


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"retenton\.ms \(did you mean retention\.ms\?\)"):
        TopicConfig.parsed({"retenton.ms": "1"})
    with pytest.raises(ConfigError, match=r"did you mean log\.retention\.ms"):
        BrokerConfig.parsed({"log_retention_ms": "1"})


def test_a_keyword_of_another_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="true or false"):
        BrokerConfig(auto_create_topics_enable=1)
    with pytest.raises(ConfigError, match="a whole number"):
        BrokerConfig(num_partitions=True)


def test_a_topic_takes_unset_settings_from_its_broker() -> None:
    broker = BrokerConfig(log_segment_bytes=2**21, message_max_bytes=5000, log_cleanup_policy=("compact",))
    config = topic_config(broker, {"max.message.bytes": "7000"})
    assert config.segment_bytes == 2**21
    assert config.max_message_bytes == 7000
    assert config.cleanup_policy == ("compact",)


@pytest.mark.parametrize(
    "texts, retention_ms",
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-5"}, -1),
    ],
)
def test_retention_is_the_finest_unit_that_was_set(texts: dict[str, str | None], retention_ms: int) -> None:
    assert topic_config(BrokerConfig.parsed(texts), {}).retention_ms == retention_ms


def test_roll_and_flush_follow_their_coarser_settings() -> None:
    config = topic_config(BrokerConfig(log_roll_hours=2, log_flush_scheduler_interval_ms=50), {})
    assert (config.segment_ms, config.flush_ms, config.segment_jitter_ms) == (7_200_000, 50, 0)
    config = topic_config(BrokerConfig(log_roll_ms=9, log_flush_interval_ms=8, log_roll_jitter_hours=1), {})
    assert (config.segment_ms, config.flush_ms, config.segment_jitter_ms) == (9, 8, 3_600_000)


def test_compaction_lags_that_contradict_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"min\.compaction\.lag\.ms=5 must not exceed"):
        topic_config(BrokerConfig(), {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "3"})


def test_broker_id_and_node_id_are_the_same_number() -> None:
    assert BrokerConfig(broker_id=4).node_id == 4
    assert BrokerConfig(node_id=5).broker_id == 5
    with pytest.raises(ConfigError, match=r"broker\.id=4 and node\.id=5 differ"):
        BrokerConfig(broker_id=4, node_id=5)


def test_session_timeouts_with_crossed_limits_are_refused() -> None:
    with pytest.raises(ConfigError, match="must not exceed"):
        BrokerConfig(group_max_session_timeout_ms=10)


def test_settings_of_one_broker_override_those_of_all_brokers_and_of_the_start() -> None:
    started = BrokerConfig(message_max_bytes=1, log_retention_ms=1, num_partitions=3)
    altered = started.with_dynamic(
        {"message.max.bytes": "30"}, {"message.max.bytes": "20", "log.retention.ms": "20"}
    )
    assert (altered.message_max_bytes, altered.log_retention_ms, altered.num_partitions) == (30, 20, 3)
    restored = altered.with_dynamic({})
    assert restored == started
    assert topic_config(altered, {}).max_message_bytes == 30
    assert topic_config(restored, {}).max_message_bytes == 1


def test_topics_that_set_nothing_share_their_settings() -> None:
    broker = BrokerConfig()
    assert topic_config(broker, {}) is topic_config(broker, {})
    default = topic_config(broker, {}).retention_ms
    assert topic_config(broker, {"retention.ms": str(default)}) == topic_config(broker, {})
    assert topic_config(broker, {"retention.ms": "5"}) != topic_config(broker, {})
    assert topic_config(broker, {}).retention_ms == default


def test_settings_are_compared_by_value_not_by_source() -> None:
    given, default = BrokerConfig.parsed({"log.retention.hours": "168"}), BrokerConfig()
    assert given.layer(ConfigSource.STATIC_BROKER) != default.layer(ConfigSource.STATIC_BROKER)
    assert given == default
    assert BrokerConfig.parsed({"log.retention.hours": "167"}) != default


def test_settings_never_change() -> None:
    with pytest.raises(AttributeError, match="cannot be changed"):
        BrokerConfig().num_partitions = 4


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_dynamic_settings_do_not_change_the_broker_id(name: str) -> None:
    altered = BrokerConfig.parsed({name: "7"}).with_dynamic({"log.retention.ms": "5"})
    assert (altered.node_id, altered.broker_id, altered.log_retention_ms) == (7, 7, 5)

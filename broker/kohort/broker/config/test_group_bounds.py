"""Within what the settings of groups may lie, and what becomes of one that lies outside by now."""

import pytest

from kohort.broker.config import BrokerConfig, ConfigError
from kohort.broker.config.group_bounds import BOUNDS, bounds
from kohort.broker.config.group_settings import check_group_settings, describe_group, group_settings


@pytest.mark.parametrize("name", BOUNDS)
def test_a_group_setting_is_allowed_at_its_bounds_and_refused_beyond(name: str) -> None:
    config = BrokerConfig()
    low, high = bounds(config)[name]
    for value in (low, high):
        check_group_settings(config, {name: str(value)})
    with pytest.raises(ConfigError, match=name):
        check_group_settings(config, {name: str(high + 1)})
    with pytest.raises(ConfigError, match=name):
        check_group_settings(config, {name: str(low - 1)})


@pytest.mark.parametrize("name", [name for name, (_, most) in BOUNDS.items() if most is not None])
def test_a_value_above_a_lowered_bound_counts_as_the_bound(name: str) -> None:
    config = BrokerConfig()
    _, high = bounds(config)[name]
    assert group_settings(config, {name: str(high + 1)}).value(name) == high
    described = {each.name: each.value for each in describe_group(config, {name: str(high + 1)})}
    assert described[name] == str(high + 1)


def test_a_value_below_a_raised_bound_counts_as_the_bound() -> None:
    settings = group_settings(BrokerConfig(), {"share.record.lock.duration.ms": "1000"})
    assert settings.share_record_lock_duration_ms == 15_000
    settings = group_settings(BrokerConfig(), {"streams.task.offset.interval.ms": "1"})
    assert settings.streams_task_offset_interval_ms == 15_000


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"group_consumer_session_timeout_ms": 44_999}, "group.consumer.min.session.timeout.ms"),
        ({"group_share_heartbeat_interval_ms": 15_001}, "group.share.max.heartbeat.interval.ms"),
        ({"group_streams_session_timeout_ms": 60_001}, "group.streams.max.session.timeout.ms"),
        ({"group_streams_task_offset_interval_ms": 14_999}, "group.streams.min.task.offset.interval.ms"),
        ({"group_streams_num_standby_replicas": 3}, "group.streams.max.standby.replicas"),
        ({"group_share_record_lock_duration_ms": 10_000}, "group.share.min.record.lock.duration.ms"),
        (
            {
                "group_consumer_min_heartbeat_interval_ms": 20_000,
                "group_consumer_heartbeat_interval_ms": 20_000,
            },
            "must be greater than or equal to",
        ),
        (
            {"group_share_max_heartbeat_interval_ms": 50_000, "group_share_heartbeat_interval_ms": 45_000},
            "must be greater than group.share.heartbeat.interval.ms",
        ),
    ],
)
def test_a_broker_whose_own_values_exceed_the_bounds_does_not_start(values: dict[str, int], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        BrokerConfig(**values)


def test_a_group_setting_without_a_broker_setting_shows_its_default_as_kafka_does() -> None:
    described = {
        each.name: each for each in describe_group(BrokerConfig(), {"share.auto.offset.reset": "earliest"})
    }
    reset = described["share.auto.offset.reset"]
    assert [(each.value, each.source.name) for each in reset.synonyms] == [
        ("earliest", "GROUP"),
        ("latest", "DEFAULT"),
    ]
    isolation = described["share.isolation.level"]
    assert [each.name for each in isolation.synonyms] == ["share.isolation.level"]

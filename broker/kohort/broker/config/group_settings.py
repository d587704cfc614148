"""A group's settings over the broker's, imported when they are first used. Kafka: GroupConfig."""

import re
from collections.abc import Mapping

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.coordinator_settings import CoordinatorSettings
from kohort.broker.config.describe import (
    ConfigEntry,
    Synonyms,
    broker_synonyms,
    default_synonym,
    resource_entries,
)
from kohort.broker.config.group_bounds import bounds, check_group
from kohort.broker.config.settings import Settings, setting
from kohort.broker.config.values import (
    ConfigDefinition,
    ConfigError,
    ConfigSource,
    ConfigType,
    ConfigValue,
    Validator,
    at_least,
    one_of,
)

INT = ConfigType.INT
RESET_WORDS = "[latest, earliest, by_duration:PnDTnHnMn.nS]"
DURATION = re.compile(
    r"by_duration:P(?=.)(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)


def duration_ms(reset: str) -> int | None:
    """Return the duration of `by_duration:...`, or None for another `reset`."""
    found = DURATION.fullmatch(reset)
    if found is None:
        return None
    days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def _check_reset(value: ConfigValue) -> str | None:
    is_known = isinstance(value, str) and (value in ("latest", "earliest") or duration_ms(value) is not None)
    return None if is_known else f"one of {RESET_WORDS}"


class GroupSettings(Settings):
    """The settings of one group. The broker's settings are the defaults."""

    KIND = "group"

    consumer_session_timeout_ms: int = setting(
        INT,
        CoordinatorSettings.group_consumer_session_timeout_ms,
        "The time without a heartbeat after which this consumer group removes a member.",
        at_least(1),
        synonyms=("group.consumer.session.timeout.ms",),
    )
    consumer_heartbeat_interval_ms: int = setting(
        INT,
        CoordinatorSettings.group_consumer_heartbeat_interval_ms,
        "The heartbeat interval of this consumer group's members.",
        at_least(1),
        synonyms=("group.consumer.heartbeat.interval.ms",),
    )
    consumer_assignment_interval_ms: int = setting(
        INT,
        CoordinatorSettings.group_consumer_assignment_interval_ms,
        "The shortest time between two assignments of this consumer group.",
        at_least(0),
        synonyms=("group.consumer.assignment.interval.ms",),
    )
    errors_deadletterqueue_topic_name: str = setting(
        ConfigType.STRING,
        "",
        "The dead letter topic of this share group. An empty name disables dead letters.",
    )
    errors_deadletterqueue_copy_record_enable: bool = setting(
        ConfigType.BOOLEAN, False, "Whether a dead letter has the key and the value of its record."
    )
    share_session_timeout_ms: int = setting(
        INT,
        CoordinatorSettings.group_share_session_timeout_ms,
        "The time without a heartbeat after which this share group removes a member.",
        at_least(1),
        synonyms=("group.share.session.timeout.ms",),
    )
    share_heartbeat_interval_ms: int = setting(
        INT,
        CoordinatorSettings.group_share_heartbeat_interval_ms,
        "The heartbeat interval of this share group's members.",
        at_least(1),
        synonyms=("group.share.heartbeat.interval.ms",),
    )
    share_assignment_interval_ms: int = setting(
        INT,
        CoordinatorSettings.group_share_assignment_interval_ms,
        "The shortest time between two assignments of this share group.",
        at_least(0),
        synonyms=("group.share.assignment.interval.ms",),
    )
    share_record_lock_duration_ms: int = setting(
        INT,
        CoordinatorSettings.group_share_record_lock_duration_ms,
        "How long a member of this share group holds the lock of an acquired record.",
        at_least(1000),
        synonyms=("group.share.record.lock.duration.ms",),
    )
    share_delivery_count_limit: int = setting(
        INT,
        CoordinatorSettings.group_share_delivery_count_limit,
        "How often this share group delivers a record before it archives it.",
        at_least(2),
        synonyms=("group.share.delivery.count.limit",),
    )
    share_partition_max_record_locks: int = setting(
        INT,
        CoordinatorSettings.group_share_partition_max_record_locks,
        "How many records of a partition this share group may have in flight.",
        at_least(100),
        synonyms=("group.share.partition.max.record.locks",),
    )
    share_auto_offset_reset: str = setting(
        ConfigType.STRING,
        "latest",
        "The offset at which this share group begins to read a partition.",
        Validator(RESET_WORDS, _check_reset),
    )
    share_isolation_level: str = setting(
        ConfigType.STRING,
        "read_uncommitted",
        "Whether this share group receives records of open and aborted transactions.",
        one_of("read_committed", "read_uncommitted"),
    )
    share_renew_acknowledge_enable: bool = setting(
        ConfigType.BOOLEAN, True, "Whether members of this share group may renew their locks of records."
    )
    streams_session_timeout_ms: int = setting(
        INT,
        CoordinatorSettings.group_streams_session_timeout_ms,
        "The time without a heartbeat after which this streams group removes a member.",
        at_least(1),
        synonyms=("group.streams.session.timeout.ms",),
    )
    streams_heartbeat_interval_ms: int = setting(
        INT,
        CoordinatorSettings.group_streams_heartbeat_interval_ms,
        "The heartbeat interval of this streams group's members.",
        at_least(1),
        synonyms=("group.streams.heartbeat.interval.ms",),
    )
    streams_assignment_interval_ms: int = setting(
        INT,
        CoordinatorSettings.group_streams_assignment_interval_ms,
        "The shortest time between two assignments of this streams group.",
        at_least(0),
        synonyms=("group.streams.assignment.interval.ms",),
    )
    streams_initial_rebalance_delay_ms: int = setting(
        INT,
        CoordinatorSettings.group_streams_initial_rebalance_delay_ms,
        "How long this streams group waits for more members before its first assignment.",
        at_least(0),
        synonyms=("group.streams.initial.rebalance.delay.ms",),
    )
    streams_num_standby_replicas: int = setting(
        INT,
        CoordinatorSettings.group_streams_num_standby_replicas,
        "The number of standby replicas of each stateful task in this streams group.",
        at_least(0),
        synonyms=("group.streams.num.standby.replicas",),
    )
    streams_acceptable_recovery_lag: int = setting(
        ConfigType.LONG,
        CoordinatorSettings.group_streams_acceptable_recovery_lag,
        "The lag up to which a task's state counts as caught up in this streams group.",
        at_least(0),
        synonyms=("group.streams.acceptable.recovery.lag",),
    )
    streams_task_offset_interval_ms: int = setting(
        INT,
        CoordinatorSettings.group_streams_task_offset_interval_ms,
        "How often members of this streams group report the offsets of their tasks.",
        at_least(1),
        synonyms=("group.streams.task.offset.interval.ms",),
    )


def group_settings(broker: BrokerConfig, overrides: Mapping[str, str | None]) -> GroupSettings:
    """Return a group's settings: its overrides (text by dotted name) over the broker's values.

    A value outside the broker's current bounds counts as the nearest bound.
    Raises: ConfigError for an unknown name or a wrong value.
    """
    settings = _as_set(broker, overrides)
    limits = bounds(broker)
    for name in overrides.keys() & limits.keys():
        low, high = limits[name]
        value = settings.value(name)
        assert isinstance(value, int)
        settings.__dict__[GroupSettings.definition(name).attribute] = min(max(value, low), high)
    return settings


def check_group_settings(broker: BrokerConfig, overrides: Mapping[str, str | None]) -> None:
    """Check new overrides of a group.

    Raises: ConfigError for an unknown name, a wrong value, a value outside its bounds, or contradictions.
    """
    settings = _as_set(broker, overrides)
    if settings.errors_deadletterqueue_topic_name.startswith("__"):
        raise ConfigError("errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'")
    check_group(broker, {name: settings.value(name) for name in overrides})
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if session not in overrides and heartbeat not in overrides:
            continue
        session_ms, heartbeat_ms = settings.value(session), settings.value(heartbeat)
        assert isinstance(session_ms, int)
        assert isinstance(heartbeat_ms, int)
        if session_ms <= heartbeat_ms:
            raise ConfigError(f"{session} must be greater than {heartbeat}")


def describe_group(broker: BrokerConfig, overrides: Mapping[str, str | None]) -> list[ConfigEntry]:
    """Return every setting of a group with these overrides, unchanged by bounds."""

    def others(definition: ConfigDefinition) -> Synonyms:
        if definition.synonyms:
            return broker_synonyms(broker, definition.synonyms[0])
        return default_synonym(definition)  # As in Kafka's ConfigHelper.

    settings = _as_set(broker, overrides)
    return resource_entries(
        GroupSettings.DEFINITIONS.values(), settings, overrides, ConfigSource.GROUP, others
    )


def _as_set(broker: BrokerConfig, overrides: Mapping[str, str | None]) -> GroupSettings:
    settings = GroupSettings()
    for definition in GroupSettings.DEFINITIONS.values():
        if definition.synonyms:
            settings.__dict__[definition.attribute] = broker.value(definition.synonyms[0])
    settings.__dict__.update(GroupSettings.parse_values(overrides))
    return settings

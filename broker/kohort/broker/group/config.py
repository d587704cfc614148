"""The settings of the group coordinator, under Kafka's names with underscores."""

from collections.abc import Mapping
from typing import Self

import msgspec

from kohort.broker.config.coordinator_settings import CoordinatorSettings as Settings

NO_SETTINGS = frozenset(
    (
        "group_new_member_join_timeout_ms",
        "group_member_bytes_max",
        "member_bytes_max",
        "member_ids_given_max",
        "bounds",
    )
)
"""The values of these that no broker setting has."""


class GroupConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator may set; the defaults are those of the broker's settings.

    Kafka: GroupCoordinatorConfig. `group_new_member_join_timeout_ms` is a constant in Kafka: how long a
    member that joined for the first time may wait for a rebalance that does not end. `member_ids_given_max`
    is ours: of how many ids that were given in advance (KIP-394) a shard remembers whether they are used;
    Kafka remembers all of them for a session timeout. So are `group_member_bytes_max` and `member_bytes_max`:
    the limits of members' metadata and assignments, of one group and of all groups of a broker. Kafka
    limits a group's by the largest record of its log, 1 MiB. `bounds` are the smallest and the
    largest value of a setting of one group, by its name there.
    """

    group_initial_rebalance_delay_ms: int = Settings.group_initial_rebalance_delay_ms
    group_min_session_timeout_ms: int = Settings.group_min_session_timeout_ms
    group_max_session_timeout_ms: int = Settings.group_max_session_timeout_ms
    group_max_size: int = Settings.group_max_size
    group_new_member_join_timeout_ms: int = 300_000
    group_member_bytes_max: int = 16 * 1024 * 1024
    member_bytes_max: int = 32 * 1024 * 1024
    member_ids_given_max: int = 2_000
    group_consumer_assignors: tuple[str, ...] = Settings.group_consumer_assignors
    group_consumer_assignment_interval_ms: int = Settings.group_consumer_assignment_interval_ms
    group_consumer_heartbeat_interval_ms: int = Settings.group_consumer_heartbeat_interval_ms
    group_consumer_session_timeout_ms: int = Settings.group_consumer_session_timeout_ms
    group_consumer_regex_refresh_interval_ms: int = Settings.group_consumer_regex_refresh_interval_ms
    group_consumer_max_size: int = Settings.group_consumer_max_size
    group_consumer_migration_policy: str = Settings.group_consumer_migration_policy
    group_share_session_timeout_ms: int = Settings.group_share_session_timeout_ms
    group_share_heartbeat_interval_ms: int = Settings.group_share_heartbeat_interval_ms
    group_share_assignment_interval_ms: int = Settings.group_share_assignment_interval_ms
    group_share_max_size: int = Settings.group_share_max_size
    group_streams_session_timeout_ms: int = Settings.group_streams_session_timeout_ms
    group_streams_heartbeat_interval_ms: int = Settings.group_streams_heartbeat_interval_ms
    group_streams_assignment_interval_ms: int = Settings.group_streams_assignment_interval_ms
    group_streams_initial_rebalance_delay_ms: int = Settings.group_streams_initial_rebalance_delay_ms
    group_streams_max_size: int = Settings.group_streams_max_size
    group_streams_num_standby_replicas: int = Settings.group_streams_num_standby_replicas
    group_streams_max_standby_replicas: int = Settings.group_streams_max_standby_replicas
    group_streams_acceptable_recovery_lag: int = Settings.group_streams_acceptable_recovery_lag
    group_streams_task_offset_interval_ms: int = Settings.group_streams_task_offset_interval_ms
    bounds: Mapping[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    offset_metadata_max_bytes: int = Settings.offset_metadata_max_bytes
    offsets_retention_minutes: int = Settings.offsets_retention_minutes
    offsets_retention_check_interval_ms: int = Settings.offsets_retention_check_interval_ms
    offsets_topic_num_partitions: int = Settings.offsets_topic_num_partitions
    offsets_commit_timeout_ms: int = Settings.offsets_commit_timeout_ms

    @classmethod
    def of(cls, settings: Settings, bounds: Mapping[str, tuple[int, int]]) -> Self:
        """Return the values of a broker's settings."""
        names = (each for each in cls.__struct_fields__ if each not in NO_SETTINGS)
        return cls(**{name: getattr(settings, name) for name in names}, bounds=bounds)

    def of_group(self, overrides: Mapping[str, str], name: str, default: int) -> int:
        """Return the group's own setting, within its bounds, or else the broker's value."""
        if name not in overrides:
            return default
        value = int(overrides[name])
        low, high = self.bounds.get(name, (value, value))
        return min(max(value, low), high)

    @property
    def default_consumer_assignor(self) -> str:
        """The assignor of consumer groups whose members request none."""
        return next(iter(self.group_consumer_assignors), "uniform")

    @property
    def may_upgrade(self) -> bool:
        """Whether classic groups with members may become consumer groups."""
        return self.group_consumer_migration_policy.upper() in ("BIDIRECTIONAL", "UPGRADE")

    @property
    def may_downgrade(self) -> bool:
        """Whether consumer groups whose members are all classic may become classic groups."""
        return self.group_consumer_migration_policy.upper() in ("BIDIRECTIONAL", "DOWNGRADE")

    @property
    def offsets_retention_ms(self) -> int:
        """How long offsets are kept after their group went empty."""
        return self.offsets_retention_minutes * 60_000

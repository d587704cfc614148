"""The settings of a `client-metrics` resource, imported at their first use. Kafka: ClientMetricsConfigs."""

from collections.abc import Mapping

from kohort.broker.config.describe import ConfigEntry, default_synonym, resource_entries
from kohort.broker.config.settings import Settings, setting
from kohort.broker.config.values import ConfigSource, ConfigType, between

INTERVAL_MS_DEFAULT = 300_000
MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
)
"""What a pattern may be about. Kafka has `client_source_port` as well."""


class ClientMetricsSettings(Settings):
    """Which metrics are asked of which clients, and how often."""

    KIND = "client metrics"

    interval_ms: int = setting(
        ConfigType.INT,
        INTERVAL_MS_DEFAULT,
        "How often a client sends its metrics.",
        between(100, 3_600_000),
    )
    metrics: tuple[str, ...] = setting(
        ConfigType.LIST, (), "Prefixes of the names of metrics. An asterisk asks for all of them."
    )
    match: tuple[str, ...] = setting(
        ConfigType.LIST,
        (),
        "Which clients are asked: name=pattern pairs, all of which have to match the whole value. Names: "
        + ", ".join(MATCHED)
        + ".",
    )


def describe_client_metrics(overrides: Mapping[str, str | None]) -> list[ConfigEntry]:
    """Return every setting of a resource with these overrides."""
    return resource_entries(
        ClientMetricsSettings.DEFINITIONS.values(),
        ClientMetricsSettings.parsed(overrides),
        overrides,
        ConfigSource.CLIENT_METRICS,
        default_synonym,
    )

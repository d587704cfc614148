"""Which metrics are asked of which clients: the `client-metrics` resources. Pure.

Source: org.apache.kafka.server.metrics.ClientMetricsConfigs, ClientMetricsInstanceMetadata.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from kohort.broker.config.client_metrics_settings import INTERVAL_MS_DEFAULT, MATCHED, ClientMetricsSettings
from kohort.broker.config.values import ConfigError
from kohort.broker.group.consumer.patterns import Pattern, TooMuchWork
from kohort.protocol.checksum import crc32c

EVERY_METRIC = "*"


class Requester(NamedTuple):
    """A client that may be asked for its metrics. The names of the fields are those of `match`."""

    client_instance_id: str
    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str


class Wanted(NamedTuple):
    """What one client is asked for: names, or prefixes of names, of metrics, and how often."""

    metrics: tuple[str, ...] = ()
    interval_ms: int = INTERVAL_MS_DEFAULT

    def asks_for(self, name: str) -> bool:
        """Return whether it asks for the metric of this name."""
        return self.metrics == (EVERY_METRIC,) or name.startswith(self.metrics)

    def subscription_id(self, client_instance_id: UUID) -> int:
        """Return a number that is another one for other metrics or another interval."""
        words = f"{self.metrics}{self.interval_ms}".encode()
        unsigned = crc32c(words, 0) ^ (client_instance_id.int & 0xFFFFFFFF)
        return unsigned - (1 << 32) if unsigned >> 31 else unsigned


class Subscription:
    """One resource of the configuration."""

    def __init__(self, configs: Mapping[str, str]) -> None:
        settings = ClientMetricsSettings.parsed(dict(configs))
        self.metrics = settings.metrics
        self.interval_ms = settings.interval_ms
        self._patterns = {
            name: Pattern(pattern) for name, _, pattern in (each.partition("=") for each in settings.match)
        }

    def matches(self, requester: Requester) -> bool:
        """Return whether every pattern matches the client; one that takes too much work matches nobody."""
        try:
            return all(pattern.matches(getattr(requester, name)) for name, pattern in self._patterns.items())
        except TooMuchWork:
            return False


def check_client_metrics(configs: Mapping[str, str]) -> None:
    """Check the settings of a resource. Raises: ConfigError."""
    for each in ClientMetricsSettings.parsed(dict(configs)).match:
        name, equals, pattern = each.partition("=")
        if not equals or name not in MATCHED:
            raise ConfigError(f"Illegal client matching pattern: {each}: it begins with {', '.join(MATCHED)}")
        try:
            Pattern(pattern)
        except ValueError as error:
            raise ConfigError(f"Illegal client matching pattern: {each}: {error}") from None


def wanted_of(subscriptions: Iterable[Subscription], requester: Requester) -> Wanted:
    """Return what all subscriptions together ask of a client: the shortest interval counts."""
    matching = [each for each in subscriptions if each.matches(requester)]
    names = sorted({name for each in matching for name in each.metrics})
    interval_ms = min((each.interval_ms for each in matching), default=INTERVAL_MS_DEFAULT)
    return Wanted((EVERY_METRIC,) if EVERY_METRIC in names else tuple(names), interval_ms)

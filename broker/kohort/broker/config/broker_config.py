"""The broker's own settings, under Kafka's names.

Defaults and limits are those of Apache Kafka 4.4 (org.apache.kafka.server.config and related packages). Where
kohort has another default, `kafka_default` is Kafka's.
"""

from collections.abc import Mapping

from kohort.broker.config.coordinator_settings import CoordinatorSettings
from kohort.broker.config.group_bounds import check_broker
from kohort.broker.config.log_settings import LogSettings
from kohort.broker.config.security_settings import SecuritySettings
from kohort.broker.config.server_settings import ServerSettings
from kohort.broker.config.values import ConfigError, ConfigSource, ConfigValue, render


class BrokerConfig(ServerSettings, CoordinatorSettings, LogSettings, SecuritySettings):
    """Every setting of the broker; `log_retention_ms` is Kafka's `log.retention.ms`, and so on."""

    def __init__(self, **values: ConfigValue) -> None:
        super().__init__(**values)
        texts = {
            self.definition(name.replace("_", ".")).name: render(value) for name, value in values.items()
        }
        self._settle({ConfigSource.STATIC_BROKER: texts})

    @classmethod
    def parsed(cls, texts: Mapping[str, str | None]) -> "BrokerConfig":
        """Return the settings from texts by dotted name."""
        return cls(**cls.parse_values(texts))

    def with_dynamic(
        self, broker: Mapping[str, str | None], cluster: Mapping[str, str | None] | None = None
    ) -> "BrokerConfig":
        """Return these settings with dynamic values over the static ones.

        `broker` has the dynamic values of this broker, `cluster` those of all brokers. `broker` wins over
        `cluster`, and both over the static values. The dynamic values of `self` are dropped.
        """
        layers = {
            ConfigSource.DYNAMIC_BROKER: dict(broker),
            ConfigSource.DYNAMIC_DEFAULT_BROKER: dict(cluster or {}),
            ConfigSource.STATIC_BROKER: dict(self.layer(ConfigSource.STATIC_BROKER)),
        }
        config = BrokerConfig()
        del config.__dict__["broker_id"]  # It came from the default of node.id.
        for layer in reversed(layers.values()):
            config.__dict__.update(self.parse_values(layer))
        config._settle(layers)
        return config

    def layer(self, source: ConfigSource) -> Mapping[str, str | None]:
        """Return the values of one source as text, by dotted name."""
        layers: dict[ConfigSource, dict[str, str | None]] = self.__dict__["_layers"]
        return layers.get(source, {})

    def _settle(self, layers: dict[ConfigSource, dict[str, str | None]]) -> None:
        """Make node.id and broker.id equal, check the settings together, and store their sources."""
        if "broker_id" in self.__dict__ and self.broker_id >= 0:
            if self.__dict__.get("node_id", self.broker_id) != self.broker_id:
                raise ConfigError(
                    f"broker.id={self.broker_id} and node.id={self.node_id} differ: set one of them"
                )
            self.__dict__["node_id"] = self.broker_id
        self.__dict__["broker_id"] = self.node_id
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError(
                f"group.min.session.timeout.ms={self.group_min_session_timeout_ms} must not exceed "
                f"group.max.session.timeout.ms={self.group_max_session_timeout_ms}"
            )
        if "classic" not in self.group_coordinator_rebalance_protocols:
            raise ConfigError("group.coordinator.rebalance.protocols: the classic protocol can't be disabled")
        check_broker(self)
        self.__dict__["_layers"] = layers


BROKER_DEFINITIONS = tuple(BrokerConfig.DEFINITIONS.values())

"""The broker's current configuration, for parts that must see dynamic changes."""

from kohort.broker.config.broker_config import BrokerConfig


class CurrentConfig:
    """Holds the current configuration. Metadata changes replace it. The loop's thread only."""

    __slots__ = ("config",)

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config

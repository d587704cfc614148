"""The broker's configuration as it is now: parts that live long look at it whenever they need a value."""

from kohort.broker.config.broker_config import BrokerConfig


class CurrentConfig:
    """Holds the newest configuration; who follows the metadata replaces it. The loop's thread only."""

    __slots__ = ("config",)

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config

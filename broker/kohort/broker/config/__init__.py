"""The broker's and the topics' configuration: Kafka's names, typed, checked, described."""

from kohort.broker.config.broker_config import BROKER_DEFINITIONS, BrokerConfig
from kohort.broker.config.describe import ConfigEntry, ConfigSynonym, describe_broker, describe_topic
from kohort.broker.config.load import load_config
from kohort.broker.config.topic_config import TOPIC_DEFINITIONS, TopicConfig, topic_config
from kohort.broker.config.values import (
    ConfigDefinition,
    ConfigError,
    ConfigSource,
    ConfigType,
    ConfigValue,
    render,
)

__all__ = [
    "BROKER_DEFINITIONS",
    "TOPIC_DEFINITIONS",
    "BrokerConfig",
    "ConfigDefinition",
    "ConfigEntry",
    "ConfigError",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "ConfigValue",
    "TopicConfig",
    "describe_broker",
    "describe_topic",
    "load_config",
    "render",
    "topic_config",
]

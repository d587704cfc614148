"""What the broker's own topics are created with: every setting that is taken makes topics that can be."""

from collections.abc import Callable

import pytest

from kohort.broker.config import BrokerConfig, ConfigError, TopicConfig
from kohort.broker.config.serve import load_serve_config
from kohort.broker.metadata.internal_topics import offsets_topic, share_state_topic, transactions_topic
from kohort.broker.metadata.topic_plans import NewTopic

OFFSETS = "offsets.topic.segment.bytes"
TRANSACTIONS = "transaction.state.log.segment.bytes"
SHARES = "share.coordinator.state.topic.segment.bytes"


def config_of(name: str, text: str) -> BrokerConfig:
    return load_serve_config(None, [(name, text)]).config


@pytest.mark.parametrize(
    ("name", "topic"),
    [(OFFSETS, offsets_topic), (TRANSACTIONS, transactions_topic), (SHARES, share_state_topic)],
)
def test_a_topic_can_be_created_with_the_smallest_segment_size(
    name: str, topic: Callable[[BrokerConfig], NewTopic]
) -> None:
    with pytest.raises(ConfigError, match="at least 1048576"):
        config_of(name, "1048575")
    created = topic(config_of(name, "1048576"))
    assert TopicConfig.parsed(created.configs).segment_bytes == 1048576


@pytest.mark.parametrize(
    ("name", "default"), [("group.share.assignors", "simple"), ("group.streams.assignors", "sticky")]
)
def test_the_only_assignor_of_a_kind_of_group_can_be_named(name: str, default: str) -> None:
    assert config_of(name, default).value(name) == (default,)
    with pytest.raises(ConfigError, match=default):
        config_of(name, "other")

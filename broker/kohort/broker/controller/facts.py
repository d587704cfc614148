"""The inputs of a decision besides the partitions: live brokers, and the settings of topics."""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from kohort.broker.config import BrokerConfig, topic_config
from kohort.broker.metadata.snapshot import Snapshot, TopicState

UNASSIGNED = UUID(int=0)
"""The directory of a replica that is unknown. Source: org.apache.kafka.common.DirectoryId.UNASSIGNED."""


class LiveBroker(NamedTuple):
    """A broker whose lease holds. One of the same node id with another `broker_epoch` is another process."""

    node_id: int
    broker_epoch: int = 0
    directory_id: UUID = UNASSIGNED
    rack: str | None = None
    is_draining: bool = False
    """Whether it is about to stop: it leads only what no other can, and leaves ISRs if others stay."""
    is_drained: bool = False
    """Whether an administrator drained it: it leads only what no other can, and stays in sync."""
    former_directories: tuple[UUID, ...] = ()
    """The former ids of its folder, from when it was known to be complete."""

    @property
    def may_be_chosen(self) -> bool:
        """Return whether it is to lead like any other."""
        return not (self.is_draining or self.is_drained)


LiveBrokers = Mapping[int, LiveBroker]
"""The live brokers by node id."""


class TopicRules(NamedTuple):
    """The settings of a topic that elections ask for."""

    min_insync_replicas: int = 1
    unclean_leader_election: bool = False


def topic_rules(defaults: BrokerConfig, topic: TopicState) -> TopicRules:
    """Return what elections ask for of a topic: its own settings, the broker's where it has none."""
    config = topic_config(defaults, dict(topic.configs))
    return TopicRules(config.min_insync_replicas, config.unclean_leader_election_enable)


def live_brokers(now: Snapshot) -> LiveBrokers:
    """Return the brokers of a snapshot in the form for decisions."""
    return {
        each.node_id: LiveBroker(
            each.node_id,
            each.epoch,
            each.directories[0] if each.directories else UNASSIGNED,
            each.rack,
            each.is_draining,
            each.is_drained,
            each.former_directories,
        )
        for each in now.brokers
    }

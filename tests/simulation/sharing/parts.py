"""The broker's parts for share groups, as `Broker` puts them together, in one life of a server."""

from typing import TYPE_CHECKING

from kohort.broker.config.current import CurrentConfig
from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.coordination.share_state_shards import ShareStateShard
from kohort.broker.coordination.shares import Shares, make_shares
from kohort.broker.handlers.data.family import Data
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.handlers.share.family import ShareServices
from kohort.broker.metadata import TopicState
from kohort.broker.metadata.topic_plans import NewTopic

if TYPE_CHECKING:
    from tests.simulation.server import Server


class SharingParts:
    """What one life of the broker has for share groups."""

    def __init__(self, server: "Server", groups: GroupServices, data: Data, current: CurrentConfig) -> None:
        self._server = server
        self.shares: Shares = make_shares(
            server.coordinator_services,
            groups.shards,
            ensure_topic=server._offsets_topic_is_there,
            ensure=self._ensure,
            counters=GroupCounters(),
        )
        self._sharing = ShareServices(groups, data, lambda: self.shares, current)

    def use(self) -> ShareServices:
        """Return what requests of share groups are put to."""
        return self._sharing

    async def _ensure(self, new: NewTopic) -> TopicState:
        """Return the topic, which is there from the start."""
        return self._server.metadata.snapshot().topics[new.name]

    def shards(self) -> list[ShareStateShard]:
        """Return every shard of share state that there is."""
        return list(self.shares.states)

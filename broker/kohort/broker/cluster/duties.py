"""A broker's duties at each change of the metadata: its own partitions, and as controller all.

Decisions are made by the controller's pure core; each change is compared with the metadata it is based on,
so that a controller that was replaced meanwhile changes nothing.
"""

from collections.abc import Iterable, Iterator
from uuid import UUID

import structlog

from kohort.broker.config.current import CurrentConfig
from kohort.broker.controller import TopicRules, balanced, decide, live_brokers, topic_rules
from kohort.broker.controller.election import led_anew
from kohort.broker.metadata import NO_LEADER, Mutation, PartitionKey, PartitionState, Snapshot, TopicState
from kohort.broker.metadata.etcd_store import EtcdMetadataStore
from kohort.broker.replication.authority import Authority

IMBALANCE_PERCENTAGE_MAX = 10.0  # Kafka's leader.imbalance.per.broker.percentage.

log = structlog.get_logger("kohort.cluster")


class Duties:
    """One look after each change; not called twice at a time."""

    def __init__(self, store: EtcdMetadataStore, current: CurrentConfig, authority: Authority) -> None:
        self._store = store
        self._current = current
        self._authority = authority
        self._node_id = authority.node_id
        self._settled: Snapshot | None = None  # What this broker, as controller, has decided on last.

    async def see_to(self, now: Snapshot) -> None:
        """Do the duties for this snapshot; a resulting change brings another one.

        Raises: MetadataConflict if that was not the newest; StorageError; ChangeUnknown: the next check uses
        the newest snapshot again, and a delayed change then conflicts with its decisions.
        """
        await self._lead_anew(now)
        if now.controller_id == NO_LEADER:
            self._settled = None
            if await self._store.become_controller(self._node_id) is not None:
                log.info("this broker is the controller", node_id=self._node_id)
        elif self.is_controller(now):
            await self._settle(now)
        else:
            self._settled = None

    def is_controller(self, now: Snapshot) -> bool:
        """Whether this registration is the controller: the key of an earlier one is older than it."""
        return now.controller_id == self._node_id and now.controller_epoch > self._authority.broker_epoch

    async def _lead_anew(self, now: Snapshot) -> None:
        """Use new leader epochs for partitions that an earlier registration of this node id led."""
        inherited = {
            key: led_anew(state)
            for key, state in _partitions(now.topics.values())
            if self._authority.is_inherited(key, state)
        }
        if inherited:
            log.info("partitions of an earlier life are led anew", partitions=len(inherited))
            await self._store.change(now, Mutation(partitions=inherited))

    async def _settle(self, now: Snapshot) -> None:
        changes = decide(self._to_look_at(now), live_brokers(now), lambda each: self._rules(now, each))
        if changes:
            log.info("partitions are settled", partitions=len(changes), controller_epoch=now.controller_epoch)
            mutation = Mutation(partitions={each.key: each.after for each in changes})
            await self._store.change(now, mutation, controller_epoch=now.controller_epoch)
        self._settled = now

    async def balance(self, now: Snapshot) -> None:
        """As the controller, elect preferred leaders if too many of a broker's do not lead.

        Raises: MetadataConflict, StorageError, ChangeUnknown.
        """
        if not self.is_controller(now):
            return
        partitions = list(_partitions(now.topics.values()))
        keys = {id(state): key for key, state in partitions}
        states = (state for _, state in partitions)
        changes = {
            keys[id(before)]: after
            for before, after in balanced(states, live_brokers(now), IMBALANCE_PERCENTAGE_MAX)
        }
        if changes:
            log.info("preferred leaders lead again", partitions=len(changes))
            await self._store.change(now, Mutation(partitions=changes), controller_epoch=now.controller_epoch)

    def _to_look_at(self, now: Snapshot) -> Iterator[tuple[PartitionKey, PartitionState]]:
        """Yield what may have to be settled: all where brokers or settings are others, else what changed."""
        before = self._settled
        if before is None or (before.brokers, before.configs) != (now.brokers, now.configs):
            return _partitions(now.topics.values())
        known = before.topics
        return _partitions(topic for name, topic in now.topics.items() if known.get(name) is not topic)

    def _rules(self, now: Snapshot, topic_id: UUID) -> TopicRules:
        return topic_rules(self._current.config, now.topics_by_id[topic_id])


def _partitions(topics: Iterable[TopicState]) -> Iterator[tuple[PartitionKey, PartitionState]]:
    for topic in topics:
        for state in topic.partitions:
            yield (topic.topic_id, state.index), state

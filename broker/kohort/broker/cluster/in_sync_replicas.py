"""The leader's own part in the metadata: the in-sync replicas of its partitions, one transaction each."""

from collections.abc import Callable

import structlog
import trio

from kohort.broker.config.current import CurrentConfig
from kohort.broker.metadata import ChangeUnknown, MetadataConflict, Mutation, PartitionKey
from kohort.broker.metadata.etcd_store import EtcdMetadataStore
from kohort.broker.partitions import Partition
from kohort.broker.partitions.replicas import Replicas
from kohort.broker.replication import Leadership, Proposal
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.supervisor import Part
from kohort.storage import StorageError

LOOK_MS_MAX = 60_000
CHANGES_AT_ONCE_MAX = 32

log = structlog.get_logger("kohort.replication")


class InSyncReplicas:
    """Checks followers twice within the allowed lag, and when one may have caught up."""

    def __init__(
        self,
        store: EtcdMetadataStore,
        replicas: Replicas,
        may_act: Callable[[], bool],
        current: CurrentConfig,
        clock: Clock,
    ) -> None:
        self._store = store
        self._replicas = replicas
        self._may_act = may_act
        self._current = current
        self._clock = clock
        self._catching_up: dict[Partition, None] = {}
        self._more = trio.Event()
        replicas.on_lag = self._lags

    def _lags(self, partition: Partition) -> None:
        self._catching_up[partition] = None
        self._more.set()

    async def keep(self, part: Part) -> None:
        """Propose the right in-sync replicas, while this broker runs."""
        whole_look = trio.current_time()
        while True:
            interval_seconds = self._current.config.replica_lag_time_max_ms / 2_000
            with trio.move_on_at(whole_look + interval_seconds):
                await self._more.wait()
            self._more = trio.Event()
            is_whole = trio.current_time() >= whole_look + interval_seconds
            if is_whole:
                whole_look = trio.current_time()
            chosen, self._catching_up = self._catching_up, {}
            with part.working(LOOK_MS_MAX):
                await self._look(None if is_whole else chosen)

    async def _look(self, chosen: dict[Partition, None] | None) -> None:
        if not self._may_act():
            return
        asked: list[tuple[PartitionKey, Leadership, Proposal]] = []
        now_ms = self._clock.now_ms()
        for partition in tuple(self._replicas.to_lead) if chosen is None else chosen:
            leadership = partition.leadership
            if leadership is None:
                continue
            leadership.propose(now_ms)
            if leadership.proposal is not None:  # A new proposal, or one without an answer.
                asked.append(((partition.topic_id, partition.index), leadership, leadership.proposal))
        limit = trio.CapacityLimiter(CHANGES_AT_ONCE_MAX)
        async with trio.open_nursery() as nursery:
            for each in asked:
                nursery.start_soon(self._ask_for, limit, *each)

    async def _ask_for(
        self, limit: trio.CapacityLimiter, key: PartitionKey, leadership: Leadership, proposal: Proposal
    ) -> None:
        async with limit:
            await self._change(key, leadership, proposal)

    async def _change(self, key: PartitionKey, leadership: Leadership, proposal: Proposal) -> None:
        """Send the proposal once. Until its result is known, the next check sends the same.

        A refusal answers all earlier copies of the same proposal: each compares the partition, this
        broker's registration and those of the joining brokers, and none of these ever changes back.
        """
        now = self._store.snapshot()
        if leadership.proposal is not proposal or now.partition(key) != proposal.before:
            return  # The current state is on its way to the leadership, or has arrived.
        for node_id, broker_epoch in proposal.joining.items():
            broker = now.broker(node_id)
            if broker is None or broker.epoch != broker_epoch:
                leadership.refused()  # Had it been made before that, it would be in `now`.
                return
        mutation = Mutation(partitions={key: proposal.after})
        try:
            await self._store.change(now, mutation, broker_epochs=proposal.joining)
        except MetadataConflict:
            if leadership.proposal is proposal:
                leadership.refused()
        except (StorageError, ChangeUnknown) as error:
            log.warning("in-sync replicas could not be changed", error=str(error))
        else:
            self._log_change(key, proposal)

    def _log_change(self, key: PartitionKey, proposal: Proposal) -> None:
        topic = self._store.snapshot().topics_by_id.get(key[0])
        log.info(
            "the in-sync replicas have changed",
            topic=None if topic is None else topic.name,
            partition=key[1],
            before=proposal.before.isr,
            now=proposal.after.isr,
        )

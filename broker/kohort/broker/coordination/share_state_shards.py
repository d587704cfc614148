"""The share state shards of this broker: whoever asks about a share partition asks here.

In a cluster this broker coordinates what the partitions of `__share_group_state` hold that it leads; others
are asked for what they lead.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import structlog

from kohort.broker.config.current import CurrentConfig
from kohort.broker.coordination.led_shards import LedShards
from kohort.broker.coordination.shard import Shard, ShardState
from kohort.broker.coordination.share_machine import ShareStateMachine
from kohort.broker.coordination.share_state_peers import ShareStatePeers
from kohort.broker.group import NO_REQUEST, Event, coordinator_partition
from kohort.broker.metadata import NO_LEADER, SHARE_STATE_TOPIC, MetadataStore, Snapshot
from kohort.broker.metadata.deletions import DeletedTopics, topics_deleted
from kohort.broker.partitions import PartitionTable
from kohort.broker.partitions.flusher import Flusher
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import Workers
from kohort.broker.share_state.commands import (
    ForgetTopics,
    InitializeState,
    ReadSummary,
    SnapshotAll,
    Snapshotted,
)
from kohort.broker.share_state.coordinator import ShareStateCoordinator
from kohort.broker.share_state.state import ShareKey, next_life
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryPartitionResult,
)
from kohort.protocol.schema import Message
from kohort.storage import StorageError

PRUNED_BYTES_MIN = 1024 * 1024
"""A log that has grown by less since it was pruned last is left as it is."""

ShareStateShard = Shard[ShareStateCoordinator]
Command = Callable[[int], Message | object]

log = structlog.get_logger("kohort.share")


class _Asked:
    """Whoever has asked something: where the answer will not come, it hears that the shard is away."""

    def __init__(self, refuse: Callable[[ErrorCode], None]) -> None:
        self._refuse = refuse

    def hang_up(self) -> None:
        """Say that it may be asked again: the shard has failed, and is loaded anew."""
        self._refuse(ErrorCode.NOT_COORDINATOR)


class ShareStateShards:
    """Every share state shard by its partition. All methods belong to the loop's thread."""

    def __init__(
        self,
        machine: ShareStateMachine,
        metadata: MetadataStore,
        current: CurrentConfig,
        *,
        ensure_topic: Callable[[], Awaitable[object]],
        partitions: PartitionTable,
        flusher: Flusher,
        timers: Timers,
        clock: Clock,
        workers: Workers,
        deleted_topics: DeletedTopics,
        peers: ShareStatePeers | None = None,
    ) -> None:
        """`ensure_topic` makes `__share_group_state` unless it is there, and raises ApiError if it can't.

        `deleted_topics` are those that somebody else remembers.
        `peers` are asked for what other brokers lead; without them, this broker leads everything.
        """
        self._peers = peers
        self._machine = machine
        self._metadata = metadata
        self._current = current
        self._ensure_topic = ensure_topic
        self._partitions = partitions
        self._flusher = flusher
        self._timers = timers
        self._clock = clock
        self._workers = workers
        self._deleted_topics = deleted_topics
        self._pruned_bytes: dict[int, int] = {}  # How large each log was after it was pruned last.
        self._shards: LedShards[ShareStateCoordinator] = LedShards(
            SHARE_STATE_TOPIC,
            metadata,
            self._new_shard,
            ensure_topic=ensure_topic,
            workers=workers,
            log=log,
            trouble="share state could not be loaded",
            leads=None if peers is None else partial(partitions.leads, SHARE_STATE_TOPIC),
        )
        self._unwatch = metadata.watch(self._follow)
        self._arm_pruning()

    @property
    def partitions(self) -> int:
        """How many partitions `__share_group_state` has, or will have."""
        return self._shards.partitions(self._current.config.share_coordinator_state_topic_num_partitions)

    async def ensure_topic(self) -> None:
        """Return once the topic is there. Raises: ApiError if it can't be made."""
        await self._ensure_topic()

    def ask(
        self,
        key: ShareKey,
        command: Callable[[int], object],
        respond: Callable[[Message], None],
    ) -> None:
        """Have whoever coordinates the share partition decide; `respond` gets the answer, or a refusal.

        Of one share partition a write has to be answered before the next is asked for: another broker may
        coordinate it by then.
        """
        index = self._index(key)
        if self.is_here(index):
            self.ask_here(key, command, respond)
            return
        leader = self._leader_of(index)
        asked = command(NO_REQUEST)
        if leader is None:
            refused = self._machine.refusal(asked, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            assert refused is not None
            respond(refused[1])
        else:
            assert self._peers is not None
            self._peers.ask(leader, asked, respond)

    def ask_here(
        self,
        key: ShareKey,
        command: Callable[[int], object],
        respond: Callable[[Message], None],
    ) -> None:
        """Have the share partition's shard decide, where this broker has it."""

        def refuse(code: ErrorCode) -> None:
            refused = self._machine.refusal(command(NO_REQUEST), code)
            assert refused is not None
            respond(refused[1])

        try:
            shard = self._shards.serving(self._index(key))
        except ApiError as error:
            refuse(error.code)
            return
        shard.submit(command(shard.ask(_Asked(refuse), respond)))

    def begin_life(self, key: ShareKey, start_offset: int, respond: Callable[[Message], None]) -> None:
        """Begin to keep a share partition's state, or anew, under a state epoch that no life of it had.

        What an earlier life has asked for, and comes late, is refused. `respond` gets an
        InitializeShareGroupStatePartitionResult.
        """

        def known(answer: Message) -> None:
            assert isinstance(answer, ReadShareGroupStateSummaryPartitionResult)
            state_epoch = next_life(answer.state_epoch)
            if answer.error_code:
                command = InitializeState(NO_REQUEST, key, state_epoch, start_offset)
                respond(command.refused(ErrorCode(answer.error_code), answer.error_message))
            else:
                self.ask(key, lambda each: InitializeState(each, key, state_epoch, start_offset), respond)

        self.ask(key, lambda request_id: ReadSummary(request_id, key), known)

    async def ready(self, keys: Iterable[ShareKey]) -> None:
        """Return when the shards of these share partitions serve, or when that takes too long."""
        await self._shards.ready(map(self._index, keys))

    def _index(self, key: ShareKey) -> int:
        return coordinator_partition(key.text, self.partitions)

    def _new_shard(self, index: int, load_soon: Callable[[ShareStateShard], None]) -> ShareStateShard:
        return Shard(
            index,
            self._machine,
            logs=self._partitions,
            flusher=self._flusher,
            timers=self._timers,
            clock=self._clock,
            workers=self._workers,
            note=partial(self._noted, index),
            load_soon=load_soon,
            on_loaded=self._loaded,
        )

    # -- who leads ----------------------------------------------------------------------------------------

    def is_here(self, index: int) -> bool:
        """Whether this broker coordinates the share partitions of that partition."""
        return self._shards.is_here(index)

    def _leader_of(self, index: int) -> int | None:
        """Return the other broker that leads a partition; None where there is none."""
        assert self._peers is not None
        topic = self._metadata.snapshot().topics.get(SHARE_STATE_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[index].leader
        return None if leader in (NO_LEADER, self._peers.node_id) else leader

    def refresh(self) -> None:
        """Take up the shards that this broker leads by now, and drop those that it leads no more."""
        self._shards.refresh()

    # -- what goes ----------------------------------------------------------------------------------------

    def _follow(self, before: Snapshot, after: Snapshot) -> None:
        """Forget what was kept of deleted topics.

        In a cluster, take up and drop shards as their partitions get other leaders: one that was kept over
        another's time would not know what that has written.
        """
        if self._peers is not None and before.topics.get(SHARE_STATE_TOPIC) is not after.topics.get(
            SHARE_STATE_TOPIC
        ):
            self.refresh()
        deleted = topics_deleted(before, after)
        if deleted:
            for shard in self._shards:
                if shard.state is ShardState.ACTIVE:
                    shard.submit(ForgetTopics(frozenset(topic.topic_id for topic in deleted)))

    def _loaded(self, shard: ShareStateShard, seconds: float) -> None:
        """Forget topics whose deletion was told while the shard was not there to hear of it.

        Those that are only missing stay: the metadata may be older than what is kept.
        """
        gone = self._deleted_topics.gone(self._metadata.snapshot())
        if not gone.isdisjoint(key.topic_id for key in shard.core.states):
            shard.submit(ForgetTopics(gone))

    def _arm_pruning(self) -> None:
        interval_ms = self._current.config.share_coordinator_state_topic_prune_interval_ms
        self._timers.set("prune share state", self._clock.now_ms() + interval_ms, self._prune)

    def _prune(self) -> None:
        """Have every log that has grown begin anew, with snapshots of all that is kept."""
        for shard in self._shards:
            index = shard.index
            partition = self._partitions.peek(SHARE_STATE_TOPIC, index)
            serving_log = None if partition is None else partition.serving_log
            if shard.state is ShardState.ACTIVE and serving_log is not None:
                grown_bytes = serving_log.size_bytes - self._pruned_bytes.get(index, 0)
                if grown_bytes >= PRUNED_BYTES_MIN:
                    shard.submit(SnapshotAll(serving_log.log_end_offset))
        self._arm_pruning()

    def _noted(self, index: int, event: Event | Snapshotted) -> None:
        assert isinstance(event, Snapshotted)
        self._workers.spawn(self._delete_before, index, event.end_offset)

    async def _delete_before(self, index: int, offset: int) -> None:
        """Move the log's start behind what snapshots say anew."""
        partition = self._partitions.peek(SHARE_STATE_TOPIC, index)
        serving_log = None if partition is None else partition.serving_log
        if partition is None or serving_log is None:
            return

        def move() -> None:
            if partition.serving_log is serving_log and not partition.deleted:
                serving_log.delete_records_before(offset, self._clock.wall_ms())

        try:
            await self._partitions.between_writes(partition, move)
            await self._partitions.folder.save_log_starts()
        except StorageError as error:
            log.error("a log of share state could not be pruned", shard=index, error=str(error))
        else:
            self._pruned_bytes[index] = serving_log.size_bytes

    def close(self) -> None:
        """Forget all; what is in the logs stays."""
        self._unwatch()
        self._timers.cancel("prune share state")
        self._shards.close()


def is_passing(code: int) -> bool:
    """Return whether the same may be asked again: the coordinator is on its way."""
    return code in (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )

"""The shards of share state: `__share_group_state`, which keeps what became of records in share groups."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import structlog

from kohort.broker.coordination.coordinator_shards import CoordinatorShards
from kohort.broker.coordination.peer_requests import PeerRequests
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.coordination.shard import BrokerRequester, Shard, ShardState
from kohort.broker.coordination.share_machine import ShareStateMachine
from kohort.broker.coordination.share_state_wire import AskOfGroup
from kohort.broker.group import NO_REQUEST, Event
from kohort.broker.metadata import Snapshot
from kohort.broker.metadata.deletions import DeletedTopics, topics_deleted
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
RETRIABLE = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)
"""With these the same may be asked again: the shard is being loaded, or moves to another broker."""

ShareStateShard = Shard[ShareStateCoordinator]

log = structlog.get_logger("kohort.share")


class ShareStateShards(CoordinatorShards[ShareKey, ShareStateCoordinator]):
    """The shards of share state, by share partition."""

    def __init__(
        self,
        machine: ShareStateMachine,
        services: CoordinatorServices,
        *,
        ensure_topic: Callable[[], Awaitable[object]],
        deleted_topics: DeletedTopics,
        peers: PeerRequests | None,
    ) -> None:
        """`deleted_topics` belong to another object. `peers` are None for a broker alone."""
        super().__init__(
            machine,
            services,
            ensure_topic=ensure_topic,
            partitions_at_creation=lambda config: config.share_coordinator_state_topic_num_partitions,
        )
        self._partitions = services.partitions
        self._deleted_topics = deleted_topics
        self._peers = peers
        self._pruned_bytes: dict[int, int] = {}  # How large each log was after it was pruned last.
        self._repeat(
            "prune share state",
            lambda config: config.share_coordinator_state_topic_prune_interval_ms,
            self._prune,
        )

    def text_of(self, key: ShareKey) -> str:
        """Return the text of a share partition that Kafka hashes."""
        return key.text

    def ask(
        self,
        key: ShareKey,
        command: Callable[[int], Any],
        respond: Callable[[Message], None],
        *,
        only_here: bool = False,
    ) -> None:
        """Let the coordinator of a share partition decide a command; `respond` gets the answer or a refusal.

        `command` makes it with a request id. With `only_here` no other broker is asked. A write has to be
        answered before the next write of the same share partition: its coordinator may move in between.
        """
        try:
            shard = self.shard_of(key)
        except ApiError as error:
            if error.code is ErrorCode.NOT_COORDINATOR and not only_here:
                self._ask_leader(key, command(NO_REQUEST), respond)
            else:
                respond(command(NO_REQUEST).refused(error.code))
        else:
            requester = BrokerRequester(lambda code: respond(command(NO_REQUEST).refused(code)))
            shard.submit(command(shard.ask(requester, respond)))

    def begin_life(self, key: ShareKey, start_offset: int, respond: Callable[[Message], None]) -> None:
        """Initialize a share partition's state, possibly again, with a state epoch that was never used.

        Late requests for an earlier state are refused. `respond` gets an
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

    def _ask_leader(self, key: ShareKey, command: Any, respond: Callable[[Message], None]) -> None:
        leader = self.leader_of(self.topic, self.index_of(key))
        if leader is None or self._peers is None:
            respond(command.refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            self._peers.ask(leader, AskOfGroup(type(command), key.group_id), command, respond)

    def _new_shard(self, index: int) -> ShareStateShard:
        return self._make(Shard, index, partial(self._noted, index))

    # -- deleted topics -----------------------------------------------------------------------------------

    def _follow(self, before: Snapshot, after: Snapshot) -> None:
        """Also forget the state of deleted topics."""
        super()._follow(before, after)
        deleted = topics_deleted(before, after)
        if deleted:
            self.submit_to_active(ForgetTopics(frozenset(topic.topic_id for topic in deleted)))

    def _loaded(self, shard: ShareStateShard, seconds: float) -> None:
        """Drop topics that were deleted while the shard was not loaded.

        Topics that are only missing stay: the metadata may be older than the stored state.
        """
        gone = self._deleted_topics.gone(self._metadata.snapshot())
        if not gone.isdisjoint(key.topic_id for key in shard.core.states):
            shard.submit(ForgetTopics(gone))

    # -- pruning ------------------------------------------------------------------------------------------

    def _prune(self) -> None:
        """Restart every log that has grown, with snapshots of all state."""
        for shard in self:
            index = shard.index
            partition = self._partitions.peek(self.topic, index)
            serving_log = None if partition is None else partition.serving_log
            if shard.state is ShardState.ACTIVE and serving_log is not None:
                grown_bytes = serving_log.size_bytes - self._pruned_bytes.get(index, 0)
                if grown_bytes >= PRUNED_BYTES_MIN:
                    shard.submit(SnapshotAll(serving_log.log_end_offset))

    def _noted(self, index: int, event: Event | Snapshotted) -> None:
        assert isinstance(event, Snapshotted)
        self._services.workers.spawn(self._delete_before, index, event.end_offset)

    async def _delete_before(self, index: int, offset: int) -> None:
        """Move the start of a log to the snapshots of all that was before them."""
        partition = self._partitions.peek(self.topic, index)
        serving_log = None if partition is None else partition.serving_log
        if partition is None or serving_log is None:
            return

        def move() -> None:
            if partition.serving_log is serving_log and not partition.deleted:
                serving_log.delete_records_before(offset, self.clock.wall_ms())

        try:
            await self._partitions.between_writes(partition, move)
            await self._partitions.folder.save_log_starts()
        except StorageError as error:
            log.error("a log of share state could not be pruned", shard=index, error=str(error))
        else:
            self._pruned_bytes[index] = serving_log.size_bytes

"""The parts of share groups put together, and the share state that groups begin to keep."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from uuid import UUID

import structlog

from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.coordination.dead_letters import DeadLetters
from kohort.broker.coordination.group_shards import GroupShards
from kohort.broker.coordination.log_ends import LogEndsAnywhere
from kohort.broker.coordination.peer_requests import peers_of
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.coordination.shard import Requester
from kohort.broker.coordination.share_machine import ShareStateMachine
from kohort.broker.coordination.share_partitions import SharePartitions
from kohort.broker.coordination.share_state_shards import ShareStateShards
from kohort.broker.group.share.commands import ShareStateReady
from kohort.broker.group.share.group import ShareGroup
from kohort.broker.metadata import TopicState
from kohort.broker.metadata.topic_plans import NewTopic
from kohort.broker.runtime.workers import Workers
from kohort.broker.share_state.coordinator import ShareStateConfig
from kohort.broker.share_state.state import UNKNOWN_OFFSET, ShareKey
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.initialize_share_group_state import InitializeShareGroupStatePartitionResult
from kohort.protocol.schema import Message
from kohort.storage import StorageError

log = structlog.get_logger("kohort.share")


class Shares:
    """What share groups need besides their coordinator: share partitions, and the state of these."""

    def __init__(
        self, partitions: SharePartitions, groups: GroupShards, workers: Workers, log_ends: LogEndsAnywhere
    ) -> None:
        self.partitions = partitions
        self.log_ends = log_ends
        self.states = partitions.states
        self._groups = groups
        self._workers = workers
        self._initializing: set[str] = set()  # The groups whose state is being initialized.

    def make_ready(self, group_id: str) -> None:
        """Initialize the state of share partitions that the group asks for, unless that is under way."""
        group = self._groups.find(group_id, ShareGroup)
        if group is not None and group.initializing and group_id not in self._initializing:
            self._initializing.add(group_id)
            asked = {topic_id: each.partitions for topic_id, each in group.initializing.items()}
            self._workers.spawn(self._initialize, group_id, asked)

    async def _initialize(self, group_id: str, asked: Mapping[UUID, frozenset[int]]) -> None:
        keys = [
            ShareKey(group_id, topic_id, index)
            for topic_id in sorted(asked)
            for index in sorted(asked[topic_id])
        ]
        try:
            if await self._load(keys):
                _Initializing(self, group_id, keys, self._initialized).begin()
                return
        except Exception:  # A supervisor: one group's state shall not end the broker.
            log.exception("the state of a share group could not be initialized", group_id=group_id)
        self._initializing.discard(group_id)

    async def _load(self, keys: Sequence[ShareKey]) -> bool:
        """Wait for the coordinators of share partitions; return False if there can be none."""
        try:
            await self.states.ensure_topic()
        except (ApiError, StorageError) as error:
            log.error("the topic of share state could not be created", error=str(error))
            return False
        await self.states.ready(keys)
        return True

    def _initialized(self, group_id: str, done: Mapping[UUID, frozenset[int]]) -> None:
        self._initializing.discard(group_id)
        if done:
            self._groups.submit_if_active(group_id, ShareStateReady(group_id, done))

    def when_kept(self, keys: Sequence[ShareKey], then: Callable[[], None], requester: Requester) -> None:
        """Call `then` when the coordinators of these share partitions are loaded, or have failed to load.

        The first request after a start would be refused otherwise: nobody else loads them before. If `then`
        fails later, the requester gets no answer, and its connection is closed.
        """
        if self.states.are_ready(keys):
            then()
        else:
            self._workers.spawn(self._make_ready, keys, then, requester)

    async def _make_ready(
        self, keys: Sequence[ShareKey], then: Callable[[], None], requester: Requester
    ) -> None:
        try:
            await self._load(keys)
        except Exception:  # A supervisor: what follows answers with an error of its own.
            log.exception("the state of share partitions could not be loaded")
        try:
            then()
        except Exception:  # A supervisor, as where a handler fails at once: one bug costs one connection.
            log.exception("a request about share partitions met an impossible state")
            requester.hang_up()

    def close(self) -> None:
        """End every share partition; their state stays."""
        self.partitions.close()


class _Initializing:
    """Share partitions whose state is being initialized."""

    def __init__(
        self,
        shares: Shares,
        group_id: str,
        keys: list[ShareKey],
        finish: Callable[[str, Mapping[UUID, frozenset[int]]], None],
    ) -> None:
        self._states = shares.states
        self._group_id = group_id
        self._keys = keys
        self._finish = finish
        self._missing = len(keys)
        self._done: dict[UUID, set[int]] = {}

    def begin(self) -> None:
        for key in self._keys:
            self._states.begin_life(key, UNKNOWN_OFFSET, partial(self._answered, key))

    def _answered(self, key: ShareKey, answer: Message) -> None:
        assert isinstance(answer, InitializeShareGroupStatePartitionResult)
        if answer.error_code == ErrorCode.NONE:
            self._done.setdefault(key.topic_id, set()).add(key.partition)
        else:
            log.warning(
                "a share partition could not be made ready",
                group_id=self._group_id,
                partition=key.partition,
                error=ErrorCode(answer.error_code).name,
            )
        self._missing -= 1
        if not self._missing:
            done = {topic_id: frozenset(each) for topic_id, each in self._done.items()}
            self._finish(self._group_id, done)


def make_shares(
    services: CoordinatorServices,
    groups: GroupShards,
    *,
    ensure_topic: Callable[[], Awaitable[object]],
    ensure: Callable[[NewTopic], Awaitable[TopicState]],
    counters: GroupCounters,
) -> Shares:
    """Return the parts; nothing of them is loaded yet. `ensure` makes any topic unless it exists."""
    config = services.current.config
    machine = ShareStateMachine(
        ShareStateConfig(
            config.share_coordinator_snapshot_update_records_per_snapshot,
            config.share_coordinator_write_timeout_ms,
        )
    )
    states = ShareStateShards(
        machine,
        services,
        ensure_topic=ensure_topic,
        deleted_topics=groups.deleted_topics,
        peers=peers_of(services, log),
    )
    dead_letters = partial(DeadLetters, services, ensure=ensure, counters=counters)
    led = SharePartitions(states, services, dead_letters=dead_letters)
    return Shares(led, groups, services.workers, LogEndsAnywhere(services))

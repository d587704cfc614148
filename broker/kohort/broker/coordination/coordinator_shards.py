"""The shards of one internal topic that this broker coordinates: found by key, loaded, dropped, closed.

Groups, transactions and share state are kept by one of these each. Kafka: CoordinatorRuntime.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import structlog

from kohort.broker.config import BrokerConfig
from kohort.broker.coordination.machine import CoreT, Machine
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.coordination.shard import INLINE_LOAD_BYTES, Shard, ShardState
from kohort.broker.group import Event as CoreEvent
from kohort.broker.group import coordinator_partition
from kohort.broker.metadata import NO_LEADER, Snapshot
from kohort.broker.runtime.workers import Event
from kohort.protocol.compiled import mypyc_attr
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.storage import StorageError

KEYS_REMEMBERED_MAX = 100_000
REMEMBERED_CHARACTERS_MAX = 500
LOAD_PATIENCE_SECONDS = 1.0
RELOAD_DELAYS_SECONDS: tuple[float, ...] = (0.1, 0.5, 2.0, 10.0)
RELOAD_AGAIN_MS = 30_000
"""How long after the last of these attempts a load is tried again without a request: transactions have to end
even if no client asks for them."""

KeyT = TypeVar("KeyT")
"""The key of a shard: a group id, a transactional id, or a share partition."""

log = structlog.get_logger("kohort.group")


@mypyc_attr(allow_interpreted_subclasses=True)
class CoordinatorShards(Generic[KeyT, CoreT]):
    """Every shard by its partition; iterating gives the existing ones. The loop's thread only.

    A broker alone coordinates every partition of the topic, a member of a cluster the partitions that it
    leads. A shard is made and loaded once its partition is led here, or at the first request for it.
    """

    def __init__(
        self,
        machine: Machine[CoreT],
        services: CoordinatorServices,
        *,
        ensure_topic: Callable[[], Awaitable[object]],
        partitions_at_creation: Callable[[BrokerConfig], int],
    ) -> None:
        """`ensure_topic` makes the topic unless it exists; it raises ApiError if it can't.

        `partitions_at_creation` returns how many partitions it gets then.
        """
        self.topic = machine.topic
        self.ensure_topic = ensure_topic
        self.clock = services.clock
        self.inline_load_bytes = INLINE_LOAD_BYTES
        self.loading: set[int] = set()
        """The partitions whose shards are being loaded."""
        self._machine = machine
        self._services = services
        self._metadata = services.metadata
        self._others = services.others
        self._partitions_at_creation = partitions_at_creation
        self._shards: dict[int, Shard[CoreT]] = {}
        self._by_key: dict[KeyT, Shard[CoreT]] = {}  # Of keys seen before: a hash over a string is slow.
        self._load_ended: dict[int, Event] = {}  # Of loads for whose end a request waits.
        self._repeated: list[str] = []  # The timers of repeated commands.
        self._unwatch = services.metadata.watch(self._follow)

    def __iter__(self) -> Iterator[Shard[CoreT]]:
        return iter(self._shards.values())

    # -- finding a shard ----------------------------------------------------------------------------------

    @property
    def partitions(self) -> int:
        """How many partitions the topic has, or will have."""
        topic = self._metadata.snapshot().topics.get(self.topic)
        if topic is None:
            return self._partitions_at_creation(self._services.current.config)
        return len(topic.partitions)

    def text_of(self, key: KeyT) -> str:
        """Return the text that Kafka hashes to find the partition of a key."""
        return str(key)

    def index_of(self, key: KeyT) -> int:
        """Return the partition that keeps a key."""
        shard = self._by_key.get(key)
        return coordinator_partition(self.text_of(key), self.partitions) if shard is None else shard.index

    def shard_of(self, key: KeyT) -> Shard[CoreT]:
        """Return the active shard of a key.

        Raises: ApiError COORDINATOR_LOAD_IN_PROGRESS, or NOT_COORDINATOR where another broker has it.
        """
        shard = self._by_key.get(key)
        if shard is not None and shard.state is ShardState.ACTIVE:
            return shard
        text = self.text_of(key)
        shard = self.shard_at(coordinator_partition(text, self.partitions))
        if len(text) <= REMEMBERED_CHARACTERS_MAX:
            if len(self._by_key) >= KEYS_REMEMBERED_MAX:
                self._by_key.clear()
            self._by_key[key] = shard
        return shard

    def shard_at(self, index: int) -> Shard[CoreT]:
        """Return the active shard of a partition. Raises: ApiError, as `shard_of`."""
        if not self.is_here(index):
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        shard = self._made(index)
        shard.check_active()
        return shard

    def active_shard_of(self, key: KeyT) -> Shard[CoreT] | None:
        """Return the shard of a key if it is active; load nothing otherwise."""
        shard = self._shards.get(self.index_of(key))
        return shard if shard is not None and shard.state is ShardState.ACTIVE else None

    def active(self) -> Iterator[Shard[CoreT]]:
        """Return every shard, all of them active. Raises: ApiError COORDINATOR_LOAD_IN_PROGRESS."""
        for shard in self._shards.values():
            shard.check_active()
        return iter(self._shards.values())

    def submit_if_active(self, key: KeyT, command: object) -> None:
        """Submit a command without a requester to the shard of a key, if it is active."""
        shard = self.active_shard_of(key)
        if shard is not None:
            shard.submit(command)

    def submit_to_active(self, command: object) -> None:
        """Submit a command without a requester to every active shard."""
        for shard in self._shards.values():
            if shard.state is ShardState.ACTIVE:
                shard.submit(command)

    def _made(self, index: int) -> Shard[CoreT]:
        shard = self._shards.get(index)
        if shard is None:
            shard = self._shards[index] = self._new_shard(index)
        return shard

    def _new_shard(self, index: int) -> Shard[CoreT]:
        """Return a new shard of a partition, by `_make`."""
        raise NotImplementedError

    def _make(
        self, shard_type: type[Shard[CoreT]], index: int, note: Callable[[CoreEvent], None]
    ) -> Shard[CoreT]:
        """Return a new shard; `note` gets the events of its core."""
        return shard_type(
            index,
            self._machine,
            self._services,
            note=note,
            load_soon=self._load_soon,
            on_loaded=self._loaded,
            inline_load_bytes=self.inline_load_bytes,
        )

    # -- leaders ------------------------------------------------------------------------------------------

    def is_here(self, index: int) -> bool:
        """Whether this broker coordinates a partition."""
        return self._others is None or self._services.partitions.leads(self.topic, index)

    def leader_of(self, topic_name: str, index: int) -> int | None:
        """Return the other broker that leads a partition of a topic; None without one."""
        topic = self._metadata.snapshot().topics.get(topic_name)
        if self._others is None or topic is None or not 0 <= index < len(topic.partitions):
            return None
        leader = topic.partitions[index].leader
        return None if leader in (NO_LEADER, self._others.node_id) else leader

    def refresh(self) -> None:
        """Load the shards of partitions that this broker leads by now; drop the others."""
        for index, shard in list(self._shards.items()):
            if not self.is_here(index):
                del self._shards[index]
                self._by_key.clear()
                shard.close()  # Waiting requests are answered NOT_COORDINATOR, and so are all from now on.
        topic = self._metadata.snapshot().topics.get(self.topic)
        for index in range(0 if topic is None else len(topic.partitions)):
            if self.is_here(index):
                shard = self._made(index)
                if shard.state is ShardState.CLOSED:
                    self._load_soon(shard)

    def _follow(self, before: Snapshot, after: Snapshot) -> None:
        """Refresh if the leaders of the topic may have changed."""
        if self._others is not None and before.topics.get(self.topic) is not after.topics.get(self.topic):
            self.refresh()

    # -- loading ------------------------------------------------------------------------------------------

    async def ready(self, keys: Iterable[KeyT]) -> None:
        """Return when the shards of these keys are loaded or have failed, or when that takes too long.

        A client that has just found its coordinator would otherwise meet COORDINATOR_LOAD_IN_PROGRESS with
        its first request, and wait out a backoff for a load that takes a millisecond.
        """
        workers = self._services.workers
        with workers.move_on_after(LOAD_PATIENCE_SECONDS):
            for key in keys:
                index = self.index_of(key)
                if self.is_here(index) and (shard := self._made(index)).state is not ShardState.ACTIVE:
                    self._load_soon(shard)
                    await self._load_ended.setdefault(index, workers.event()).wait()

    def are_ready(self, keys: Iterable[KeyT]) -> bool:
        """Whether the shards of these keys that are here are active."""
        indexes = {self.index_of(key) for key in keys}
        return all(self._made(index).state is ShardState.ACTIVE for index in indexes if self.is_here(index))

    def _load_soon(self, shard: Shard[CoreT]) -> None:
        """Load a shard in a task of its own, unless that is under way."""
        self._begin_to_load(shard, RELOAD_DELAYS_SECONDS)

    def _begin_to_load(self, shard: Shard[CoreT], delays_seconds: Sequence[float]) -> None:
        if shard.index not in self.loading:
            self.loading.add(shard.index)
            self._services.workers.spawn(self._load, shard, delays_seconds)

    async def _load(self, shard: Shard[CoreT], delays_seconds: Sequence[float]) -> None:
        """Load a shard. A load that fails is tried again after each delay, later by a timer or a request."""
        try:
            for delay_seconds in (*delays_seconds, None):
                try:
                    await self.ensure_topic()
                    if self._is_wanted(shard):
                        await shard.load()
                except (ApiError, StorageError) as error:
                    log.error(
                        "a shard could not be loaded", topic=self.topic, shard=shard.index, error=str(error)
                    )
                except Exception:  # A supervisor: one shard's log shall not end the broker.
                    log.exception("a shard could not be loaded", topic=self.topic, shard=shard.index)
                else:
                    return
                shard.close()  # A load that failed late has left a shard that serves and has set timers.
                if delay_seconds is not None:
                    await self._services.workers.sleep(delay_seconds)
            self._load_again_later(shard)
        finally:
            self.loading.discard(shard.index)
            if not self._is_wanted(shard):  # The partition has got another leader during the load.
                shard.close()
                self.refresh()
            ended = self._load_ended.pop(shard.index, None)
            if ended is not None:
                ended.set()

    def _load_again_later(self, shard: Shard[CoreT]) -> None:
        def due() -> None:
            if self._shards.get(shard.index) is shard and shard.state is ShardState.CLOSED:
                self._begin_to_load(shard, ())

        key = self.topic, shard.index, "load"
        self._services.timers.set(key, self.clock.now_ms() + RELOAD_AGAIN_MS, due)

    def _is_wanted(self, shard: Shard[CoreT]) -> bool:
        return self._others is None or (self._shards.get(shard.index) is shard and self.is_here(shard.index))

    def _loaded(self, shard: Shard[CoreT], seconds: float) -> None:
        """Take note of a load and how long it took."""

    # -- time ---------------------------------------------------------------------------------------------

    def _repeat(
        self, name: str, interval_ms: Callable[[BrokerConfig], int], action: Callable[[], None]
    ) -> None:
        """Do `action` once in every interval, which the settings of that time say."""

        def due() -> None:
            action()
            arm()

        def arm() -> None:
            deadline_ms = self.clock.now_ms() + interval_ms(self._services.current.config)
            self._services.timers.set(name, deadline_ms, due)

        self._repeated.append(name)
        arm()

    def close(self) -> None:
        """Close every shard; their logs stay."""
        self._unwatch()
        for name in self._repeated:
            self._services.timers.cancel(name)
        for shard in self._shards.values():
            self._services.timers.cancel((self.topic, shard.index, "load"))
            shard.close()

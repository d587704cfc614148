"""Reading ahead: one fetch in flight to every broker that has partitions with room for more.

Everything here runs on the event loop; `buffer` returns the records, in the user's thread.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from uuid import UUID

import anyio
from anyio.abc import TaskGroup

from kohort.client.cluster import PATIENCE_MS, Cluster
from kohort.client.config import ConsumerConfig
from kohort.client.connections import FETCH
from kohort.client.deserializing import Deserializing
from kohort.client.errors import BrokerError, KohortError, NetworkError
from kohort.client.fetch_answers import FetchAnswers
from kohort.client.fetch_buffer import FetchBuffer
from kohort.client.fetch_plan import plan_fetches
from kohort.client.fetch_session import Asked, FetchSession
from kohort.client.lookups import Lookups
from kohort.client.offsets import EpochMember
from kohort.client.positions import PartitionState, Positions
from kohort.client.retry import Backoff, monotonic_ms
from kohort.client.signal import Signal
from kohort.client.values import PartitionInfo, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, ReplicaState
from kohort.protocol.schema import ZERO_UUID

logger = logging.getLogger(__name__)

NAMES_IN_FETCH = 12  # The newest version that names topics; later ones have their ids alone.
SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
METADATA, COMMITTED, OFFSETS, EPOCHS = "metadata", "committed", "offsets", "epochs"
Job = str | int | tuple[str, int]  # One of them, of one broker; only its id: it is asked for records.


class Fetcher:
    """Looks positions up and keeps records ready. `news` is called when there is something for a poll."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        positions: Positions,
        news: Callable[[], None],
        reader: Callable[[], EpochMember | None] = lambda: None,
    ) -> None:
        self.error: KohortError | None = None
        # Called with the broker of an ended session.
        self.began_anew: Callable[[Iterable[TopicPartition]], None] = lambda _: None
        self._cluster = cluster
        self._config = config
        self._positions = positions
        self._news = news
        self._checked: tuple[int, int] | None = None  # The metadata and the assignment that ids are of.
        self._wake = Signal()
        self.buffer = FetchBuffer(can_reset=config.can_reset, deserializing=Deserializing.of(config))
        self._lookups = Lookups(cluster, config, self.buffer, self._need_metadata, reader)
        self._answers = FetchAnswers(cluster, config, self.buffer)
        self._sessions: dict[int, FetchSession] = {}
        self._at_work: set[Job] = set()
        self._backoffs: dict[Job, Backoff] = {}
        self._look_at_ms: dict[int, float] = {}  # By node, while it is crowded.
        self._has_ended = False

    # For the reader

    def wake(self) -> None:
        """Check again what has to be fetched: partitions or positions have changed."""
        self.buffer.is_hungry = False
        self._wake.set()

    def raise_error(self) -> None:
        """Raise, once, an error that the background could not handle."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    @property
    def is_hungry(self) -> bool:
        """Whether there is room for more, and `wake` has to be called on the event loop."""
        return self.buffer.is_hungry

    @property
    def has_records(self) -> bool:
        """Whether there may be a record for the user."""
        return self.buffer.has_records

    # The background

    async def run(self) -> None:
        """Look up positions and fetch, until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                at_ms = self._schedule(tasks)
                await self._wake.wait(None if at_ms is None else max(1, at_ms - monotonic_ms()))

    async def end(self) -> None:
        """Start no fetch any more, and end the sessions of reachable brokers.

        An unended session stays until it has been unused for two minutes (KIP-227).
        Source: AbstractFetch.maybeCloseFetchSessions.
        """
        self._has_ended = True
        async with anyio.create_task_group() as tasks:
            for node_id, session in self._sessions.items():
                last = session.last()
                if last is not None:
                    tasks.start_soon(self._end_session, node_id, last)

    async def _end_session(self, node_id: int, last: Asked) -> None:
        """Use a connection without a waiting fetch: behind one, the answer would wait too."""
        connection = self._cluster.open_connection(node_id) or self._cluster.open_connection(node_id, FETCH)
        if connection is None:
            return  # A new connection for the final request may find no broker.
        try:
            await connection.request(
                self._request(last, 0), FetchResponse, timeout_ms=self._config.request_timeout_ms
            )
        except KohortError as error:
            logger.debug("a fetch session of broker %d was not ended: %s", node_id, error)

    def _schedule(self, tasks: TaskGroup) -> float | None:
        """Start everything possible now; return when to check again if nothing happens until then."""
        if self._has_ended:
            return None
        if self.error is not None:
            return None  # The user has to see it first.
        self.notice_new_topics()
        now_ms = monotonic_ms()
        plan = plan_fetches(self._positions, self._find_leader, self._cluster.metadata.nodes, now_ms)
        if plan.without_leader or self._answers.is_metadata_stale:
            self._begin(tasks, METADATA, lambda: self._refresh(plan.without_leader))
        if plan.uncommitted:
            self._begin(tasks, COMMITTED, lambda: self._lookups.find_committed(plan.uncommitted))
        for node_id, states in plan.to_look_up.items():
            self._begin(tasks, (OFFSETS, node_id), partial(self._lookups.look_up, node_id, states))
        for node_id, states in plan.unsure.items():
            self._begin(tasks, (EPOCHS, node_id), partial(self._lookups.validate, node_id, states))
        room_bytes = self._room_bytes()
        for node_id, states in plan.by_node.items() if room_bytes > 0 else ():
            at_ms = self._look_at_ms.get(node_id, 0) if node_id in plan.crowded else 0
            if at_ms > now_ms:
                plan.wait_until(at_ms)
            else:
                self._begin(tasks, node_id, self._fetch_job(node_id, states, node_id in plan.crowded))
        return plan.next_at_ms

    def notice_new_topics(self) -> None:
        """Let no position of a topic count for another that was made under its name since."""
        now = self._cluster.metadata.version, self._positions.version
        if now == self._checked:
            return
        self._checked = now
        remade = self._positions.begin_anew(self._cluster.metadata.topics)
        if remade:
            self.began_anew(remade)
        fresh = ", ".join(str(each) for each in remade if self._positions.get(each).needs_offset)
        if fresh:
            logger.warning(
                "the topic was deleted and made anew while it was read: %s begin by auto_offset_reset", fresh
            )

    def _room_bytes(self) -> int:
        """Return how much more may be fetched ahead; paused partitions use none of it."""
        most = self._config.prefetch_max_bytes
        if self.buffer.held_bytes >= most and not self.buffer.has_records:
            self.buffer.drop_paused()
        return most - self.buffer.held_bytes

    def _need_metadata(self) -> None:
        self._answers.is_metadata_stale = True

    def _find_leader(self, partition: TopicPartition) -> PartitionInfo | None:
        try:
            return self._cluster.leader(partition)
        except BrokerError:
            return None

    def _begin(self, tasks: TaskGroup, job: Job, work: Callable[[], Awaitable[None]]) -> None:
        """Let one task at a time do each job."""
        if job not in self._at_work:
            self._at_work.add(job)
            tasks.start_soon(self._work, job, work)

    async def _work(self, job: Job, work: Callable[[], Awaitable[None]]) -> None:
        backoff = self._backoffs.setdefault(
            job, Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        )
        try:
            await work()
            backoff.reset()
        except KohortError as error:
            logger.debug("fetching: %s", error)
            if error.retriable:
                if not isinstance(error, NetworkError) and job != METADATA:
                    what = f"reading does not get on: {error}"
                    self._cluster.warnings.say(job, what, after_ms=PATIENCE_MS)
                await anyio.sleep(backoff.next_ms() / 1000)
                self._need_metadata()
            else:
                self.error = error
        finally:
            self._at_work.discard(job)
            self._wake.set()
            self._news()

    async def _refresh(self, without_leader: Sequence[PartitionState]) -> None:
        """Look leaders up. Raises: KohortError, also if a partition has none still."""
        self._answers.is_metadata_stale = False
        topics = {each.partition.topic for each in self._positions}
        if topics:
            await self._cluster.refresh_metadata(topics)
        missing: BrokerError | None = None
        for each in without_leader:
            if each.partition in self._positions:
                try:
                    self._cluster.leader(each.partition)
                except BrokerError as error:
                    self._cluster.warnings.say(each.partition, error, after_ms=PATIENCE_MS)
                    missing = error
        if missing is not None:
            raise missing

    def _fetch_job(
        self, node_id: int, states: Sequence[PartitionState], is_crowded: bool
    ) -> Callable[[], Awaitable[None]]:
        async def fetch() -> None:
            try:
                brought = await self._fetch(
                    node_id, states, 0 if is_crowded else self._config.fetch_max_wait_ms
                )
            except KohortError:
                for each in states:
                    each.forget_replica()
                raise
            wait_ms = 0 if brought else self._config.fetch_max_wait_ms
            self._look_at_ms[node_id] = monotonic_ms() + wait_ms

        return fetch

    async def _fetch(self, node_id: int, states: Sequence[PartitionState], max_wait_ms: int) -> bool:
        """Ask a broker for more of these partitions; return whether it had any. Raises: KohortError."""
        connection = await self._cluster.connection(node_id, FETCH)
        session = self._sessions.setdefault(node_id, FetchSession())
        in_flight = {each.partition: (each, each.stand.fetching) for each in states}
        with_ids = connection.version_of(FetchRequest) > NAMES_IN_FETCH
        topic_ids = self._topic_ids(states) if with_ids else {}
        asked = session.ask(self._wanted(states), topic_ids)
        try:
            response = await connection.request(
                self._request(asked, max_wait_ms),
                FetchResponse,
                timeout_ms=self._config.request_timeout_ms + max_wait_ms,
                highest=None if asked.uses_topic_ids else NAMES_IN_FETCH,
            )
        except BaseException:
            session.fail()
            raise
        found = session.take_response(response)
        if response.error_code and response.error_code not in SESSION_ERRORS:
            raise BrokerError(response.error_code)
        brought = False
        for partition, data in found.items():
            if partition in in_flight:
                brought |= self._answers.take(*in_flight[partition], data, response.node_endpoints)
        if response.throttle_time_ms:
            await anyio.sleep(response.throttle_time_ms / 1000)
        return brought

    def _topic_ids(self, states: Sequence[PartitionState]) -> dict[str, UUID]:
        """Return the topic ids of the positions, even if the metadata has others by now."""
        return self._positions.topic_ids(each.partition for each in states)

    def _wanted(self, states: Sequence[PartitionState]) -> dict[TopicPartition, FetchPartition]:
        wanted: dict[TopicPartition, FetchPartition] = {}
        for each in states:
            leader = self._find_leader(each.partition)
            if leader is not None and each.is_wanted and each.fetch_offset is not None:
                wanted[each.partition] = FetchPartition(
                    partition=each.partition.partition,
                    current_leader_epoch=leader.leader_epoch,
                    fetch_offset=each.fetch_offset,
                    partition_max_bytes=self._config.max_partition_fetch_bytes,
                    replica_directory_id=ZERO_UUID,
                )
        return wanted

    def _request(self, asked: Asked, max_wait_ms: int) -> FetchRequest:
        max_bytes = max(1, min(self._config.fetch_max_bytes, self._room_bytes()))
        return FetchRequest(
            replica_id=-1,
            replica_state=ReplicaState(),
            max_wait_ms=max_wait_ms,
            # The broker would wait for more than it may answer with.
            min_bytes=min(self._config.fetch_min_bytes, max_bytes),
            max_bytes=max_bytes,
            isolation_level=int(self._config.reads_committed),
            session_id=asked.session_id,
            session_epoch=asked.epoch,
            topics=asked.topics,
            forgotten_topics_data=asked.forgotten,
            rack_id=self._config.client_rack or "",
        )

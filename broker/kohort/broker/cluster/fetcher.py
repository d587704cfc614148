"""Fetches over one connection to a leader: all partitions followed there, again and again.

The offsets of a fetch confirm what is on this broker's disk. So one is sent after all records of the last are
synced; records that the leader got meanwhile come together in the next answer.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import structlog
import trio

from kohort.broker.cluster.appending import Appending
from kohort.broker.cluster.follower_session import FollowerSession
from kohort.broker.cluster.log_starts import LogStarts
from kohort.broker.cluster.peer_connection import PeerConnection
from kohort.broker.config.current import CurrentConfig
from kohort.broker.metadata import PartitionKey
from kohort.broker.partitions import Partition
from kohort.broker.partitions.replicas import Replicas
from kohort.broker.replication import Diverging, FetchFrom, Following, Restart, Truncate, is_named
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from kohort.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kohort.storage import StorageError

FETCH_VERSION = 17
LIST_OFFSETS_VERSION = 7
EARLIEST, LATEST = -2, -1
ERROR_BACKOFF_SECONDS = 0.05
IDLE_SECONDS = 0.01
STARTS_SECONDS_MAX = 0.5
LOOK_AT_ALL_SECONDS = 1.0
GATHER_SECONDS = 0.01  # Partitions come to a leader many at a time.
SESSION_LOST = {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}

log = structlog.get_logger("kohort.replication")


class Asked(NamedTuple):
    """A partition of a fetch, as it was when that was sent."""

    partition: Partition
    following: Following
    at: FetchFrom


class Fetcher:
    """One connection's worth of fetching."""

    def __init__(
        self,
        leader: int,
        replicas: Replicas,
        appending: Appending,
        current: CurrentConfig,
        identity: Callable[[], tuple[int, int]],
        *,
        starts: LogStarts,
    ) -> None:
        self._leader = leader
        self._replicas = replicas
        self._appending = appending
        self._starts = starts
        self._current = current
        self._identity = identity
        config = current.config
        self._session = FollowerSession(
            config.replica_fetch_wait_max_ms,
            config.replica_fetch_response_max_bytes,
            config.replica_fetch_max_bytes,
        )
        self._errors: dict[
            Partition, str
        ] = {}  # The last logged error of each partition, until a fetch succeeds.
        self._paused: dict[Partition, float] = {}  # Those with an error, until when.
        self._asked: dict[PartitionKey, Asked] = {}
        self._due: dict[Partition, None] = {}  # Those whose place in the next fetch may be another.
        self._look_at_all_seconds = -math.inf
        self._waiting: trio.CancelScope | None = None

    async def run(self, peer: PeerConnection, change: Callable[[], trio.Event]) -> None:
        """Fetch until nothing is followed there, or something else is.

        Raises: OSError, trio.BrokenResourceError, trio.TooSlowError, WireError where the connection is gone.
        """
        known: trio.Event | None = None
        while self._replicas.followed(self._leader):
            changed = change()
            now = trio.current_time()
            if changed is not known or now >= self._look_at_all_seconds:
                known = changed
                self._look_at_all_seconds = now + LOOK_AT_ALL_SECONDS
                await self._cut_gaps()
                self._due.update(dict.fromkeys(self._replicas.followed(self._leader)))
                self._due.update(dict.fromkeys(each.partition for each in self._asked.values()))
            self._look_at_due()
            if not self._asked:
                with trio.move_on_after(IDLE_SECONDS):
                    await changed.wait()
                continue
            answer = await self._ask(peer, self._session.request(*self._identity()), changed)
            if answer is None:
                return  # The followed partitions have changed: new ones must not wait for old ones.
            await self._take(peer, answer)

    def other_is_followed(self) -> None:
        """Hear that the answer that is waited for is one to something else than is followed by now."""
        if self._waiting is not None:
            until = trio.current_time() + GATHER_SECONDS
            self._waiting.deadline = min(self._waiting.deadline, until)

    async def _cut_gaps(self) -> None:
        """Truncate logs to before the first lost records, so that the leader sends them again.

        One that is in sync keeps its records: then no other replica is known to have more.
        """
        own = self._identity()[0]
        for partition in tuple(self._replicas.followed(self._leader)):
            following, serving_log = partition.following, partition.serving_log
            if following is None or serving_log is None or not serving_log.gaps:
                continue
            if partition not in self._paused and own not in (*following.state.isr, *following.state.elr):
                try:
                    await self._appending.cut(partition, following, following.gap(serving_log.gaps[0][0]))
                except StorageError as error:
                    self._pause(partition, str(error))

    def _look_at_due(self) -> None:
        """Update the next fetch; partitions that it cannot include yet are checked before the one after.

        A followed log changes only by handling answers here, and roles change with `changed`.
        """
        if self._paused:
            now = trio.current_time()
            self._paused = {partition: until for partition, until in self._paused.items() if until > now}
        left: dict[Partition, None] = {}
        followed = self._replicas.followed(self._leader)
        for partition in self._due:
            key = partition.topic_id, partition.index
            asked = self._next(partition) if partition in followed else None
            if asked is not None:
                self._asked[key] = asked
                self._session.want(key, asked.at)
            else:
                self._asked.pop(key, None)
                self._session.want(key, None)
                if partition in followed:
                    left[partition] = None
        self._due = left

    def _is_due(self, partition: Partition) -> None:
        self._due[partition] = None

    def _next(self, partition: Partition) -> Asked | None:
        following = partition.following
        if following is None or partition in self._paused or partition.serving_log is None:
            return None
        if self._holds_back(partition, following):
            return None
        at = following.next_fetch()
        if at is None:
            self._appending.sync_what_is_waited_for(partition)
            return None
        told = self._starts.reported_start(partition)
        if told is not None:
            at = replace(at, log_start_offset=told)
        return Asked(partition, following, at)

    def _holds_back(self, partition: Partition, following: Following) -> bool:
        """Return whether nothing is asked just now: this replica is not in sync, and the rate is exceeded."""
        return (
            self._is_throttled(partition)
            and self._identity()[0] not in following.state.isr
            and self._replicas.taking.is_exceeded(self._rate, _now_ms())
        )

    def _is_throttled(self, partition: Partition) -> bool:
        throttled = partition.config.follower_replication_throttled_replicas
        return is_named(throttled, partition.index, self._identity()[0])

    @property
    def _rate(self) -> int:
        return self._current.config.follower_replication_throttled_rate

    async def _ask(
        self, peer: PeerConnection, request: FetchRequest, changed: trio.Event
    ) -> FetchResponse | None:
        """Return the answer, or None where something else is followed by now: the connection is done with."""
        try:
            with trio.move_on_after(self._current.config.replica_socket_timeout_ms / 1_000) as self._waiting:
                return await peer.ask(request, FetchResponse, FETCH_VERSION)
        finally:
            self._waiting = None
        if changed.is_set():
            return None
        raise trio.TooSlowError

    async def _take(self, peer: PeerConnection, answer: FetchResponse) -> None:
        """Handle the answer, and return when all its records are synced."""
        if answer.error_code:
            self._session.reset()
            if answer.error_code not in SESSION_LOST:
                log.warning(
                    "a leader refuses the fetches of this follower",
                    leader=self._leader,
                    error=answer.error_code,
                )
                await trio.sleep(ERROR_BACKOFF_SECONDS)
            return
        self._session.answered(answer.session_id)
        self._replicas.note_answer(self._leader)
        staged: list[Partition] = []
        moved: list[tuple[Asked, int]] = []
        for topic in answer.responses:
            for data in topic.partitions:
                each = self._asked.get((topic.topic_id, data.partition_index))
                if each is None:
                    continue
                self._due[each.partition] = None
                if each.partition.following is not each.following:
                    continue
                try:
                    if await self._take_one(peer, each, data):
                        staged.append(each.partition)
                    if data.log_start_offset > each.partition.log.log_start_offset:
                        moved.append((each, data.log_start_offset))
                except (StorageError, WireError) as error:
                    self._pause(each.partition, str(error))
        if staged:
            await self._appending.flush(staged)
        if moved:
            await self._follow_starts(moved)
            if not staged:  # Nothing is delayed: the leader learns of the start with the next fetch.
                await self._starts.until_saved([each.partition for each, _ in moved], STARTS_SECONDS_MAX)

    async def _follow_starts(self, moved: Sequence[tuple[Asked, int]]) -> None:
        """Let logs start where the leader's do; a later fetch reports it, after that is on the disk."""
        for each, log_start_offset in moved:
            partition = each.partition
            if partition.following is each.following and partition.serving_log is not None:
                before = partition.log.log_start_offset
                try:
                    await self._appending.follow_start(partition, each.following, log_start_offset)
                except StorageError as error:
                    self._pause(partition, str(error))
                finally:  # An error may come after the start has moved.
                    if partition.log.log_start_offset > before:
                        self._starts.moved(partition, before, partial(self._is_due, partition))

    async def _take_one(self, peer: PeerConnection, each: Asked, data: PartitionData) -> bool:
        """Return whether something was staged. Raises: StorageError, WireError."""
        partition, following, at = each
        if partition.log.log_end_offset != at.offset:
            return False  # It was truncated, or reopened, meanwhile.
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._out_of_range(peer, partition, following)
        elif data.error_code:
            self._pause(partition, ErrorCode(data.error_code).name)
        elif data.diverging_epoch.epoch >= 0:
            found = Diverging(data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            await self._appending.cut(partition, following, following.diverged(found))
        else:
            self._errors.pop(partition, None)
            following.answered(data.high_watermark, data.log_start_offset)
            records = data.records
            if records is not None and len(records):
                assert isinstance(records, bytes | memoryview)
                if self._is_throttled(partition):
                    self._replicas.taking.moved(len(records), self._rate, _now_ms())
                return await self._appending.append(partition, following, records)
            following.synced()
            partition.moved()
        return False

    def _pause(self, partition: Partition, why: str) -> None:
        """Pause fetching a partition for a moment: the metadata may be late, or the disk fails."""
        if self._errors.get(partition) != why:  # It is logged once, for any number of tries.
            self._errors[partition] = why
            log.info(
                "a partition can't be fetched",
                topic=partition.topic,
                partition=partition.index,
                leader=self._leader,
                error=why,
            )
        self._paused[partition] = trio.current_time() + ERROR_BACKOFF_SECONDS

    async def _out_of_range(self, peer: PeerConnection, partition: Partition, following: Following) -> None:
        start_offset = await self._offset_at(peer, partition, following, EARLIEST)
        end_offset = await self._offset_at(peer, partition, following, LATEST)
        if start_offset is None or end_offset is None or partition.following is not following:
            return
        cut: Truncate | Restart | None = following.out_of_range(start_offset, end_offset)
        if cut is not None:
            await self._appending.cut(partition, following, cut)

    async def _offset_at(
        self, peer: PeerConnection, partition: Partition, following: Following, timestamp: int
    ) -> int | None:
        """Return where the leader's log begins, or ends; None where it does not say."""
        asked = ListOffsetsPartition(
            partition_index=partition.index,
            current_leader_epoch=following.state.leader_epoch,
            timestamp=timestamp,
        )
        request = ListOffsetsRequest(
            replica_id=self._identity()[0],
            topics=(ListOffsetsTopic(name=partition.topic, partitions=(asked,)),),
        )
        with trio.fail_after(self._current.config.replica_socket_timeout_ms / 1_000):
            answer = await peer.ask(request, ListOffsetsResponse, LIST_OFFSETS_VERSION)
        (found,) = answer.topics[0].partitions
        if found.error_code:
            self._pause(partition, ErrorCode(found.error_code).name)
            return None
        return found.offset


def _now_ms() -> int:
    return int(trio.current_time() * 1_000)

"""One consumer's commits: one after the other, bound to its place in the group, by hand and automatic.

A commit counts only for partitions that the consumer owns at the moment. A commit during a rebalance is
repeated after it, if its partitions were kept.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel

from kohort.client.arguments import given_offsets
from kohort.client.cluster import Cluster
from kohort.client.config import ConsumerConfig
from kohort.client.consumer_records import Assignments, ConsumerRecords, PolledOffsets
from kohort.client.errors import (
    CommitFailedError,
    ConfigurationError,
    KohortError,
    RebalanceInProgressError,
)
from kohort.client.membership import Membership
from kohort.client.offsets import commit_offsets
from kohort.client.positions import Positions
from kohort.client.retry import Deadline, monotonic_ms
from kohort.client.values import AnyRecord, OffsetAndMetadata, TopicPartition
from kohort.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

LASTING_MS = 5_000  # The longest usual rebalance: a longer one is logged.

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
Commitable = Mapping[TopicPartition, OffsetAndMetadata | int] | ConsumerRecords[Any, Any] | None
"""Offsets, records that were polled, or with None everything that was consumed."""
CommitCallback = Callable[[Offsets, KohortError | None], Awaitable[None] | None]
"""Called with the committed offsets, or with the error."""


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """The result of a `commit_async`; the polling client calls the callback."""

    callback: CommitCallback
    offsets: Offsets
    error: KohortError | None


class Commits:
    """What a consumer has committed and will commit; `news` is called when a result is there.

    `bound_to` gives the membership that owns the partitions, None if no group has assigned them;
    `departure_reason` tells why that ended, until a poll has reported it.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        positions: Positions,
        *,
        bound_to: Callable[[], Membership | None],
        departure_reason: Callable[[], str],
        news: Callable[[], None],
    ) -> None:
        self.outcomes: deque[CommitOutcome] = deque()
        self.next_auto_ms = 0
        self.assignments = Assignments()
        self._cluster = cluster
        self._config = config
        self._positions = positions
        self._bound_to = bound_to
        self._departure_reason = departure_reason
        self._news = news
        self._turn = anyio.Lock()
        self._auto_running = False
        self._in_background = 0

    # By hand

    async def commit(self, offsets: Commitable, deadline: Deadline) -> None:
        """Commit these offsets, those after these records, or the position; return when they are stored.

        Raises: CommitFailedError, KohortError.
        """
        wanted = self._wanted(offsets)
        self._positions.name(wanted)
        await self._commit(wanted, deadline)

    async def _commit(self, offsets: Offsets, deadline: Deadline) -> None:
        if offsets:
            self._check_owned(offsets)
            as_of = self.assignments.number
            await self._cluster.retrying(lambda: self._once(offsets, as_of), deadline=deadline)

    def commit_soon(self, offsets: Commitable, callback: CommitCallback | None) -> None:
        """Commit in the background, once; a later poll calls the callback. Raises: CommitFailedError."""
        if callable(offsets):
            raise TypeError("a callback has a name: commit_async(callback=...)")
        wanted = self._wanted(offsets)
        self._positions.name(wanted)
        self._in_background += 1
        as_of = self.assignments.number
        self._cluster.tasks.start_soon(self._commit_in_background, wanted, as_of, callback or _log)

    async def settle(self) -> None:
        """Return when nothing is in flight in the background."""
        while self._in_background:
            async with self._turn:
                await anyio.lowlevel.checkpoint()

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that these were assigned: records polled before can't be committed any more."""
        self.assignments = self.assignments.with_next(partitions)

    def bind(self, records: list[AnyRecord], before: Assignments) -> ConsumerRecords[Any, Any]:
        """Return records that another thread has taken after it saw those assignments.

        A topic that was recreated between may have given its last old records, or the first new ones:
        then the reader's position is after these. The rest of the old ones is gone with their topic.
        """
        now = self.assignments
        if now is before:
            return ConsumerRecords(records, before)
        last = {TopicPartition(each.topic, each.partition): each.offset for each in records}
        come = [each for each in last if now.has_come_since(each, before.number)]
        positions = {each: self._positions.find(each) for each in come}
        old = {each for each, state in positions.items() if not state or state.position != last[each] + 1}
        if len(old) == len(come):
            return ConsumerRecords(records, before)
        return ConsumerRecords([each for each in records if (each.topic, each.partition) not in old], now)

    def _wanted(self, given: Commitable) -> Offsets:
        self._group_id()
        if given is None:
            return self._positions.consumed()
        if isinstance(given, ConsumerRecords):
            wanted = given.next_offsets()
            self._check_owned(wanted, given.assignment_number)
            return wanted
        wanted = given_offsets(given, "commit")
        self._check_owned(wanted, given.assignment_number if isinstance(given, PolledOffsets) else None)
        return wanted

    async def _commit_in_background(self, offsets: Offsets, as_of: int, callback: CommitCallback) -> None:
        error: KohortError | None = None
        try:
            if offsets:
                await self._once(offsets, as_of)
        except KohortError as failure:
            error = failure
        finally:
            self._in_background -= 1
        self.outcomes.append(CommitOutcome(callback, offsets, error))
        self._news()

    # By itself

    @property
    def is_automatic(self) -> bool:
        """Whether polls commit."""
        return self._config.enable_auto_commit and self._config.group_id is not None

    def start_interval(self) -> None:
        """Let the next automatic commit be one interval away."""
        self.next_auto_ms = monotonic_ms() + self._config.auto_commit_interval_ms

    def auto_if_due(self) -> None:
        """Commit the position in the background, if it is time."""
        if not self._config.enable_auto_commit or monotonic_ms() < self.next_auto_ms:
            return
        self.next_auto_ms = monotonic_ms() + max(1, self._config.auto_commit_interval_ms)
        offsets = self._positions.consumed_before({})
        if offsets and self.is_automatic and not self._auto_running:
            self._auto_running = True
            self._cluster.tasks.start_soon(self._auto, offsets, self.assignments.number)

    async def _auto(self, offsets: Offsets, as_of: int) -> None:
        try:
            await self._once(offsets, as_of)
        except KohortError as error:
            after_ms = 0
            if error.retriable:  # A rebalance or a moving coordinator is over soon: retry soon.
                after_ms = LASTING_MS
                self.next_auto_ms = min(self.next_auto_ms, monotonic_ms() + self._config.retry_backoff_max_ms)
            what = f"an automatic commit failed, the next one will make up for it: {error}"
            self._cluster.warnings.say("automatic commit", what, after_ms=after_ms)
        else:
            self._cluster.warnings.is_over("automatic commit")
        finally:
            self._auto_running = False

    async def auto_now(
        self, deadline: Deadline, unfinished: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Commit the position, if that is automatic, before the partitions are revoked.

        `unfinished` are the first offsets of records that the user could not handle.
        """
        offsets = self._positions.consumed_before(unfinished or {})
        if not self.is_automatic or not offsets:
            return
        try:
            await self._commit(offsets, deadline)
        except KohortError as error:
            logger.warning("the last automatic commit failed: %s", str(error))

    # Inside

    async def _once(self, offsets: Offsets, as_of: int) -> None:
        """Commit offsets that were the consumer's at that assignment, and are without a break since.

        A partition that was revoked and assigned again while the coordinator was unreachable may have been
        read by another member: the commit would lower its offset.
        """
        async with self._turn:  # So that a commit never overtakes an earlier one.
            self._check_owned(offsets, as_of)
            membership = self._bound_to()
            if membership is None:
                topic_ids = self._positions.topic_ids(offsets)
                await commit_offsets(self._cluster, self._group_id(), offsets, topic_ids=topic_ids)
                return
            await self._commit_as(membership, offsets)

    async def _commit_as(self, membership: Membership, offsets: Offsets) -> None:
        generation_id = membership.generation_id
        try:
            await commit_offsets(
                self._cluster,
                self._group_id(),
                offsets,
                generation_id=generation_id,
                member_id=membership.member_id,
                group_instance_id=self._config.group_instance_id,
                topic_ids=self._positions.topic_ids(offsets),
            )
        except CommitFailedError as error:
            if membership.commit_refused(error.code, generation_id, monotonic_ms()):
                raise RebalanceInProgressError(
                    f"the offsets of {_names(offsets)} were not committed: group {self._group_id()!r} is"
                    " rebalancing. Poll, and commit again what is still assigned then"
                ) from error
            self._news()
            why = self._departure_reason()
            if why:
                raise CommitFailedError(error.code, f"{error}. {why}", error.partitions) from error
            raise

    def _check_owned(self, offsets: Iterable[TopicPartition], polled_at: int | None = None) -> None:
        """Return if this consumer owns these, and did when it polled them. Raises: CommitFailedError."""
        membership = self._bound_to()
        if membership is None:
            self._check_not_made_anew(offsets, polled_at)
            return
        group_id = self._group_id()
        if membership.generation_id < 0:
            raise CommitFailedError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"the offsets of {_names(offsets)} were not committed: this consumer is no member of group"
                f" {group_id!r} at the moment. {self._departure_reason()}".rstrip(),
                tuple(offsets),
            )
        lost = membership.lost
        gone = tuple(
            each
            for each in offsets
            if each not in self._positions
            or each.partition in lost.get(each.topic, ())
            or (polled_at is not None and self.assignments.has_come_since(each, polled_at))
        )
        if gone:
            raise CommitFailedError(
                ErrorCode.ILLEGAL_GENERATION,
                f"the offsets of {_names(gone)} were not committed: group {group_id!r} has not assigned that"
                f" to this consumer in generation {membership.generation_id}, or has taken it away since;"
                " whoever owns it now may have read on",
                gone,
            )

    def _check_not_made_anew(self, offsets: Iterable[TopicPartition], polled_at: int | None) -> None:
        """Return if these are of the topics that were polled, by hand. Raises: CommitFailedError."""
        if polled_at is None:
            return
        gone = tuple(each for each in offsets if self.assignments.has_come_since(each, polled_at))
        if gone:
            raise CommitFailedError(
                ErrorCode.UNKNOWN_TOPIC_ID,
                f"the offsets of {_names(gone)} were not committed: the topic was deleted since they were"
                " read, and made anew",
                gone,
            )

    def _group_id(self) -> str:
        if self._config.group_id is None:
            raise ConfigurationError("commit needs a group_id")
        return self._config.group_id


def _log(offsets: Offsets, error: KohortError | None) -> None:
    if error is not None:
        logger.warning("a commit of %s failed: %s", _names(offsets), str(error))


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions))

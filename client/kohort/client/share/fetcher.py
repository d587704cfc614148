"""Fetching and acknowledging, a broker at a time: one request of its session follows the other.

Everything here runs on the event loop. A fetch is sent only while a poll waits: records acquired too
early are locked in vain. Acknowledgements are sent with the next fetch, or alone.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import anyio

from kohort.client.cluster import Cluster
from kohort.client.connections import FETCH
from kohort.client.errors import (
    BrokerError,
    KohortError,
    NetworkError,
    RequestTimeoutError,
    UnsupportedVersionError,
    check,
)
from kohort.client.retry import backoff_ms, monotonic_ms
from kohort.client.share.acknowledgements import GAP, Acknowledgement, Acknowledgements, Held, batches
from kohort.client.share.config import ShareConsumerConfig
from kohort.client.share.fetched import read_acquired
from kohort.client.share.membership import ShareMembership
from kohort.client.share.node_session import CLOSING, NodeSession, TopicIdPartition, acknowledge_topics
from kohort.client.share.values import AcknowledgeType, AnyShareRecord, Outcome
from kohort.client.values import TopicPartition
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kohort.protocol.messages.share_fetch import (
    ShareFetchPartitionResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

logger = logging.getLogger(__name__)

VERSION_OF_RENEWAL = 2
_LOOK_AGAIN = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
_SEND_AGAIN = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""The records are still this consumer's; their state could not be written just now."""

_RELEASE = AcknowledgeType.RELEASE
_SESSION_OVER = frozenset({ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH})

ByPartition = dict[TopicIdPartition, list[Acknowledgement]]
Answer = TypeVar("Answer", ShareFetchResponse, ShareAcknowledgeResponse)


class _Node:
    """One broker."""

    def __init__(self) -> None:
        self.session = NodeSession()
        self.turn = anyio.Lock()
        self.pending: list[Acknowledgement] = []
        self.is_fetching = False
        self.not_before_ms = 0
        self.failures = 0


class ShareFetcher:
    """Keeps acquired records until the user takes them, and sends acknowledgements to the brokers.

    `news` is called when there is something for a poll.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ShareConsumerConfig,
        membership: Callable[[], ShareMembership],
        acknowledgements: Acknowledgements,
        news: Callable[[], None],
    ) -> None:
        self.error: KohortError | None = None
        self.ready: deque[tuple[AnyShareRecord, Held]] = deque()
        self.outcomes: deque[Outcome] = deque()
        self.lock_timeout_ms: int | None = None
        self._cluster = cluster
        self._config = config
        self._membership = membership
        self._acknowledgements = acknowledgements
        self._news = news
        self._nodes: dict[int, _Node] = {}
        self._is_refreshing = False

    # For the session

    def take_over(self, acknowledgements: Iterable[Acknowledgement]) -> None:
        """Keep acknowledgements until they can be sent."""
        for each in acknowledgements:
            self._node(each.held.node_id).pending.append(each)

    @property
    def has_pending(self) -> bool:
        """Whether something is still to be sent."""
        return any(node.pending for node in self._nodes.values())

    def fetch_soon(self) -> None:
        """Ask every broker that leads something for records, unless it is being asked."""
        wanted = self._wanted()
        for node_id in wanted.keys() | {
            each for each, node in self._nodes.items() if node.session.has_partitions
        }:
            node = self._node(node_id)
            if not node.is_fetching and monotonic_ms() >= node.not_before_ms:
                node.is_fetching = True
                self._cluster.tasks.start_soon(self._fetch, node_id, node, wanted.get(node_id, {}))

    def acknowledge_soon(self) -> None:
        """Send the acknowledgements, in the background."""
        for node_id, node in self._nodes.items():
            if node.pending:
                self._cluster.tasks.start_soon(self._acknowledge_alone, node_id, node)

    async def acknowledge(self) -> None:
        """Send the acknowledgements, and return when all are answered; the results are in `outcomes`."""
        async with anyio.create_task_group() as tasks:
            for node_id, node in self._nodes.items():
                if node.pending:
                    tasks.start_soon(self._acknowledge_alone, node_id, node)

    def give_back_unwanted(self) -> None:
        """Release at once acquired records of topics that are not subscribed any more."""
        wanted = self._membership().watched_topics
        ready = tuple(self.ready)
        unwanted = [each for each in ready if each[0].topic not in wanted]
        if unwanted:
            self.ready.clear()
            self.ready.extend(each for each in ready if each[0].topic in wanted)
            self.take_over(
                Acknowledgement(TopicPartition(record.topic, record.partition), record.offset, held, _RELEASE)
                for record, held in unwanted
            )
            self.acknowledge_soon()

    async def close(self) -> None:
        """Send the acknowledgements, and end the sessions: the brokers release the other records."""
        async with anyio.create_task_group() as tasks:
            for node_id, node in self._nodes.items():
                if node.session.is_open or node.pending:
                    tasks.start_soon(self._end, node_id, node)
        self.ready.clear()  # Also the result of a fetch that was in flight.

    @property
    def next_at_ms(self) -> int | None:
        """When a broker that is left alone for now may be asked again."""
        now_ms = monotonic_ms()
        return min(
            (node.not_before_ms for node in self._nodes.values() if node.not_before_ms > now_ms), default=None
        )

    # Fetching

    def _node(self, node_id: int) -> _Node:
        return self._nodes.setdefault(node_id, _Node())

    def _wanted(self) -> dict[int, dict[TopicIdPartition, TopicPartition]]:
        """Return the partitions that are assigned, by the broker that leads them."""
        membership = self._membership()
        ids, found = membership.topic_ids, dict[int, dict[TopicIdPartition, TopicPartition]]()
        without_leader = False
        for topic, partitions in membership.assignment.items():
            if topic not in membership.watched_topics:
                continue  # The coordinator has not been told yet that the member leaves.
            for index in partitions:
                partition = TopicPartition(topic, index)
                try:
                    leader = self._cluster.leader(partition).leader
                except BrokerError:
                    without_leader = True
                    continue
                found.setdefault(leader, {})[ids[topic], index] = partition
        if without_leader:
            self._look_again_soon()
        return found

    def _look_again_soon(self) -> None:
        if not self._is_refreshing:
            self._is_refreshing = True
            self._cluster.tasks.start_soon(self._refresh)

    async def _refresh(self) -> None:
        await anyio.sleep(self._config.retry_backoff_ms / 1000)
        self._is_refreshing = False
        try:
            await self._cluster.refresh_metadata(self._membership().watched_topics)
        except KohortError as error:
            logger.debug("metadata: %s", error)
        self._news()

    async def _fetch(
        self, node_id: int, node: _Node, wanted: Mapping[TopicIdPartition, TopicPartition]
    ) -> None:
        try:
            async with node.turn:
                await self._fetch_in_turn(node_id, node, wanted)
        finally:
            node.is_fetching = False
            self._news()

    async def _fetch_in_turn(
        self, node_id: int, node: _Node, wanted: Mapping[TopicIdPartition, TopicPartition]
    ) -> None:
        keys = {(each.held.topic_id, each.partition.partition) for each in node.pending}
        renews = any(each.type == AcknowledgeType.RENEW for each in node.pending)
        if node.pending and (renews or not node.session.is_open or not keys <= wanted.keys()):
            await self._acknowledge_in_turn(node_id, node)
        acknowledgements = _by_partition(node.pending)
        node.pending = []
        topics, forgotten = node.session.fetch(
            wanted, {key: batches(each) for key, each in acknowledgements.items()}
        )
        config = self._config
        request = ShareFetchRequest(
            group_id=config.group_id,
            member_id=self._membership().member_id,
            share_session_epoch=node.session.epoch,
            max_wait_ms=config.fetch_max_wait_ms if wanted else 0,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            max_records=config.max_poll_records,
            batch_size=config.max_poll_records,
            share_acquire_mode=config.acquire_mode,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        answer = await self._ask(node_id, node, request, ShareFetchResponse, acknowledgements)
        if answer is None:
            return
        for topic in answer.responses:
            for each in topic.partitions:
                key = topic.topic_id, each.partition_index
                self._answered(
                    node,
                    acknowledgements.pop(key, []),
                    each.acknowledge_error_code,
                    each.acknowledge_error_message,
                )
                if key in wanted:
                    self._fetched(node_id, node, key, wanted[key], each)
        for left in acknowledgements.values():  # No answer: the broker has it, or delivers the records again.
            self._answered(node, left, ErrorCode.NONE, None)

    async def _ask(
        self,
        node_id: int,
        node: _Node,
        request: ShareFetchRequest | ShareAcknowledgeRequest,
        kind: type[Answer],
        acknowledgements: ByPartition,
    ) -> Answer | None:
        """Return the answer to a request of the session, None where that failed as a whole."""
        timeout_ms = self._config.request_timeout_ms + self._config.fetch_max_wait_ms
        try:
            answer = await self._cluster.request(node_id, request, kind, channel=FETCH, timeout_ms=timeout_ms)
            check(answer.error_code, answer.error_message)
        except KohortError as error:
            self._failed(node, acknowledgements, error)
            return None
        except BaseException:  # Cancelled: whether the broker received it is unknown.
            node.session.reset()
            for each in acknowledgements.values():
                self._report(each, RequestTimeoutError("the answer was not waited for"))
            raise
        self.lock_timeout_ms = answer.acquisition_lock_timeout_ms or self.lock_timeout_ms
        node.failures = 0
        node.session.advance()
        return answer

    def _failed(self, node: _Node, acknowledgements: ByPartition, error: KohortError) -> None:
        """A request failed as a whole, and its session with it: its records are released."""
        node.session.reset()
        node.failures += 1
        if error.code not in _SESSION_OVER or node.failures > 1:
            wait_ms = backoff_ms(
                node.failures, self._config.retry_backoff_ms, self._config.retry_backoff_max_ms
            )
            node.not_before_ms = monotonic_ms() + int(wait_ms)
        for each in acknowledgements.values():
            self._report(each, error)
        if not error.retriable:
            self.error = error
        elif isinstance(error, NetworkError):
            self._look_again_soon()
        self._news()

    def _fetched(
        self,
        node_id: int,
        node: _Node,
        key: TopicIdPartition,
        partition: TopicPartition,
        each: ShareFetchPartitionResponse,
    ) -> None:
        code = each.error_code
        if code in _LOOK_AGAIN:
            node.not_before_ms = monotonic_ms() + self._config.retry_backoff_ms
            self._look_again_soon()
        elif code and ErrorCode(code).retriable:
            node.not_before_ms = monotonic_ms() + self._config.retry_backoff_ms
        elif code:
            self.error = BrokerError(code, each.error_message or f"partition {partition}")
        if not each.acquired_records:
            return
        records = each.records or b""
        assert isinstance(records, bytes | bytearray | memoryview)
        held = Held(node_id, key[0], monotonic_ms() + (self.lock_timeout_ms or 0))
        try:
            found = read_acquired(
                partition, records, each.acquired_records, check_crcs=self._config.check_crcs
            )
        except WireError as error:  # It is redelivered, perhaps to a member that can read it.
            self.error = BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{partition}: {error}")
            spans = each.acquired_records
            offsets = [at for span in spans for at in range(span.first_offset, span.last_offset + 1)]
            node.pending += [Acknowledgement(partition, at, held, _RELEASE) for at in offsets]
            return
        node.pending += [Acknowledgement(partition, offset, held, GAP) for offset in found.gaps]
        if partition.topic in self._membership().watched_topics:
            self.ready.extend((record, held) for record in found.records)
        else:  # The subscription has changed while they were on their way.
            node.pending += [
                Acknowledgement(partition, record.offset, held, _RELEASE) for record in found.records
            ]

    # Acknowledging

    async def _acknowledge_alone(self, node_id: int, node: _Node) -> None:
        async with node.turn:
            if node.pending:
                await self._acknowledge_in_turn(node_id, node)
        self._news()

    async def _end(self, node_id: int, node: _Node) -> None:
        async with node.turn:
            await self._acknowledge_in_turn(node_id, node, closes=True)

    async def _acknowledge_in_turn(self, node_id: int, node: _Node, *, closes: bool = False) -> None:
        pending, node.pending = node.pending, []
        acknowledgements = _by_partition(pending)
        if not node.session.is_open:  # Records of another session are not acquired any more.
            self._report(pending, BrokerError(ErrorCode.SHARE_SESSION_NOT_FOUND))
            return
        renews = any(each.type == AcknowledgeType.RENEW for each in pending)
        if renews and not await self._can_renew(node_id, node, pending):
            return
        request = ShareAcknowledgeRequest(
            group_id=self._config.group_id,
            member_id=self._membership().member_id,
            share_session_epoch=CLOSING if closes else node.session.epoch,
            is_renew_ack=renews,
            topics=acknowledge_topics({key: batches(each) for key, each in acknowledgements.items()}),
        )
        answer = await self._ask(node_id, node, request, ShareAcknowledgeResponse, acknowledgements)
        if answer is None:
            return
        if closes:
            node.session.reset()
        for topic in answer.responses:
            for each in topic.partitions:
                key = topic.topic_id, each.partition_index
                self._answered(node, acknowledgements.pop(key, []), each.error_code, each.error_message)
        for left in acknowledgements.values():
            self._answered(node, left, ErrorCode.NONE, None)

    async def _can_renew(self, node_id: int, node: _Node, pending: list[Acknowledgement]) -> bool:
        """Return whether the broker can renew; if not, the others are sent later, and renewals fail."""
        try:
            connection = await self._cluster.connection(node_id, FETCH)
            if connection.version_of(ShareAcknowledgeRequest) >= VERSION_OF_RENEWAL:
                return True
            error: KohortError = UnsupportedVersionError("the broker knows no renewal (KIP-1222)")
        except KohortError as failure:
            error = failure
        node.pending += [each for each in pending if each.type != AcknowledgeType.RENEW]
        self._report([each for each in pending if each.type == AcknowledgeType.RENEW], error)
        return False

    def _answered(
        self, node: _Node, acknowledgements: list[Acknowledgement], code: int, text: str | None
    ) -> None:
        """Apply the result of one partition's acknowledgements."""
        if not acknowledgements:
            return
        now_ms = monotonic_ms()
        if code in _SEND_AGAIN and min(each.held.until_ms for each in acknowledgements) > now_ms:
            node.pending += acknowledgements
            node.not_before_ms = now_ms + self._config.retry_backoff_ms
            return
        if code:
            self._report(acknowledgements, BrokerError(code, text))
            if code in _LOOK_AGAIN:
                self._look_again_soon()
            return
        renewed = [each for each in acknowledgements if each.type == AcknowledgeType.RENEW]
        self._acknowledgements.renewed(renewed, now_ms + (self.lock_timeout_ms or 0))
        self._report(acknowledgements, None)

    def _report(self, acknowledgements: list[Acknowledgement], error: KohortError | None) -> None:
        offsets: dict[TopicPartition, list[int]] = {}
        for each in acknowledgements:
            if each.type != GAP:
                offsets.setdefault(each.partition, []).append(each.offset)
        if offsets:
            self.outcomes.append(Outcome(offsets, error))
            self._news()


def _by_partition(
    acknowledgements: Iterable[Acknowledgement],
) -> dict[TopicIdPartition, list[Acknowledgement]]:
    found: dict[TopicIdPartition, list[Acknowledgement]] = {}
    for each in acknowledgements:
        found.setdefault((each.held.topic_id, each.partition.partition), []).append(each)
    return found

"""The common part of the two share consumers: membership, fetching, acknowledging, on one event loop.

A poll is `begin_poll`, and then `advance` until `take_ready` has records or the timeout passes; between them
results of acknowledgements go to the user's callback, in the thread of the user's code.
"""

import logging
from collections.abc import Iterable
from typing import Self
from uuid import uuid4

import anyio

from kohort.client.arguments import one_by_one
from kohort.client.cluster import Cluster
from kohort.client.config import describe_servers
from kohort.client.consumer_session import CLOSE_REASON, UNSUBSCRIBE_REASON
from kohort.client.deserializing import Deserializing
from kohort.client.errors import (
    ConfigurationError,
    DeserializationError,
    ItemsError,
    KohortError,
    RequestTimeoutError,
)
from kohort.client.group import GroupTask
from kohort.client.membership import Departure, MemberSettings
from kohort.client.retry import Deadline, monotonic_ms
from kohort.client.session import PollingSession
from kohort.client.share.acknowledgements import Acknowledgements, Held
from kohort.client.share.config import ShareConsumerConfig
from kohort.client.share.fetcher import ShareFetcher
from kohort.client.share.membership import ShareMembership
from kohort.client.share.metrics import ShareMetrics
from kohort.client.share.values import AcknowledgeType, AnyShareRecord, Offsets, Outcome, shared
from kohort.client.topic_watch import TopicWatch
from kohort.client.values import TopicPartition

logger = logging.getLogger(__name__)

LOOK_MS = 100  # How long a poll waits before it checks whether a broker may be asked again.


class ShareSession(PollingSession):
    """One share consumer's work, open from `__aenter__` to `__aexit__`."""

    def __init__(self, config: ShareConsumerConfig, hub: Cluster | None = None) -> None:
        super().__init__(config, hub)
        self.config = config
        self._acknowledgements = Acknowledgements()
        self._member_id = str(uuid4())
        self.membership = self._new_membership()
        self.fetcher = ShareFetcher(
            self.cluster, config, lambda: self.membership, self._acknowledgements, self.news.set
        )
        self._sensors = ShareMetrics(self.metrics, self.cluster)
        self._group = GroupTask(self.cluster, self.membership, self.news.set, self._sensors, self._departed)
        self._watch = TopicWatch(self.cluster, config, lambda: self.membership, self._group.changed)
        self._deserializing = Deserializing.of(config)
        self._told_of: Departure | None = None

    def _new_membership(self) -> ShareMembership:
        config = self.config
        settings = MemberSettings(
            group_id=config.group_id,
            max_poll_interval_ms=config.max_poll_interval_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            request_timeout_ms=config.request_timeout_ms,
            rack_id=config.client_rack,
        )
        return ShareMembership(settings, self._member_id)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.cluster.tasks.start_soon(self._watch.run)
        self.cluster.tasks.start_soon(self._group.run)
        return self

    def describe(self) -> str:
        """Return a short description of what it reads."""
        topics = ", ".join(self.topics) or "nothing"
        return f"of {topics} in share group {self.config.group_id!r} at {describe_servers(self.config)}"

    # Subscription

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are subscribed to."""
        return self._watch.topics

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that the group has it read at the moment; others may read them as well."""
        assigned = self.membership.assignment.items()
        return tuple(
            TopicPartition(topic, each) for topic, partitions in sorted(assigned) for each in partitions
        )

    def subscribe(self, topics: Iterable[str]) -> None:
        """Take part in the work of these topics. Raises: ConfigurationError without any."""
        wanted = one_by_one(topics, str, "subscribe")
        if not wanted:
            raise ConfigurationError("subscribe takes topics; unsubscribe ends it")
        self._watch.subscribe(wanted, None)
        self.fetcher.give_back_unwanted()

    async def unsubscribe(self) -> None:
        """Send the acknowledgements, release acquired records, and leave the group."""
        await self._leave(UNSUBSCRIBE_REASON, Deadline(self.config.default_api_timeout_ms))
        self.membership = self._new_membership()
        self._group.serve(self.membership)
        self._watch.subscribe((), None)

    # Polling

    def begin_poll(self) -> None:
        """Take over the acknowledgements since the last poll; on the event loop.

        In implicit mode the returned records are accepted. Raises: KohortError.
        """
        if not self.topics:
            raise ConfigurationError("nothing to read: subscribe to topics first")
        now_ms = monotonic_ms()
        self._sensors.polled(now_ms)
        self.membership.departure = None
        if self.membership.poll_begins():
            self._group.changed()
        self._take_over(accept=self.config.is_implicit)

    def _take_over(self, *, accept: bool) -> None:
        if accept:
            self._acknowledgements.acknowledge_all(AcknowledgeType.ACCEPT)
        acknowledgements = self._acknowledgements.take_pending()
        self._sensors.acknowledged(len(acknowledgements))
        self.fetcher.take_over(acknowledgements)

    async def advance(self, deadline: Deadline | None) -> Outcome | None:
        """Return a result for the user's callback; None when there may be records, or at the timeout.

        Raises: KohortError; WakeupError.
        """
        try:
            while True:
                self._raise_errors()
                if self.fetcher.outcomes:
                    return self._next_outcome()
                if self.fetcher.ready:
                    self.fetcher.acknowledge_soon()
                    return None
                # Also for a poll without a timeout: the next poll gets the records.
                self.fetcher.fetch_soon()
                if deadline is not None and deadline.passed:
                    return None
                await self.news.wait(self._wait_ms(deadline))
        finally:
            self.membership.poll_ends(monotonic_ms())

    def is_over(self, deadline: Deadline | None) -> bool:
        """Whether the timeout has passed, and nothing was there then."""
        return deadline is not None and deadline.passed and not self.fetcher.ready

    def take_ready(self, most: int) -> list[AnyShareRecord]:
        """Return up to `most` available records, in the reading thread.

        Raises: DeserializationError if the first can't be read: in implicit mode it is released.
        """
        ready, now_ms = self.fetcher.ready, monotonic_ms()
        given: list[tuple[AnyShareRecord, Held]] = []
        while ready and len(given) < most:
            record, held = ready[0]
            if held.until_ms > now_ms:
                try:
                    given.append((self._made(record), held))
                except DeserializationError:
                    if given:
                        break
                    ready.popleft()
                    self._acknowledgements.hand_out([(record, held)], now_ms)
                    if self.config.is_implicit:
                        self._acknowledgements.acknowledge(record, AcknowledgeType.RELEASE)
                    raise
            ready.popleft()
        if given:
            self._acknowledgements.hand_out(given, now_ms)
            self._sensors.consumed(len(given))
        return [record for record, _ in given]

    def accept_last(self) -> None:
        """The user's loop wants the next record: in implicit mode it has accepted the one before."""
        if self.config.is_implicit:
            self._acknowledgements.acknowledge_all(AcknowledgeType.ACCEPT)

    def next_ready(self) -> AnyShareRecord | None:
        """Return the next available record, in the same way."""
        found = self.take_ready(1)
        return found[0] if found else None

    def _made(self, record: AnyShareRecord) -> AnyShareRecord:
        if self._deserializing is None:
            return record
        (made,) = self._deserializing.apply([record])
        return shared(made, record.delivery_count)

    # Acknowledging

    def acknowledge(self, record: AnyShareRecord, type_: AcknowledgeType) -> None:
        """Note what became of a record, to be sent later. Raises: NotAcquiredError, ConfigurationError."""
        if self.config.is_implicit:
            raise ConfigurationError(
                "a poll accepts the records of the poll before: to acknowledge each record yourself set"
                " share_acknowledgement_mode='explicit'"
            )
        self._acknowledgements.acknowledge(record, type_)

    async def commit(self) -> None:
        """Send the acknowledgements, and return when all are kept. The callbacks are still to be called.

        Raises: ItemsError with the error of each partition; RequestTimeoutError.
        """
        deadline = Deadline(self.config.default_api_timeout_ms)
        self._take_over(accept=self.config.is_implicit)
        before = len(self.fetcher.outcomes)
        while self.fetcher.has_pending and not deadline.passed:
            with anyio.move_on_after(deadline.remaining_ms / 1000):
                await self.fetcher.acknowledge()
            if self.fetcher.has_pending:
                await anyio.sleep(self.config.retry_backoff_ms / 1000)
        fresh = list(self.fetcher.outcomes)[before:]
        errors: dict[TopicPartition, KohortError] = {
            where: each.error for each in fresh if each.error is not None for where in each.offsets
        }
        if self.fetcher.has_pending:
            raise RequestTimeoutError(f"not all is acknowledged within {deadline.timeout_ms:.0f} ms")
        if errors:
            raise ItemsError(errors, {})

    def commit_soon(self) -> None:
        """Send the acknowledgements in the background; a later call runs the callbacks."""
        self._take_over(accept=self.config.is_implicit)
        self.fetcher.acknowledge_soon()

    async def leave(
        self, timeout_ms: float, *, has_failed: bool = False, leave_group: bool | None = None
    ) -> None:
        """Send acknowledgements, release the rest, and leave the group, within the timeout.

        In implicit mode returned records are accepted, unless the user's block has failed. A share group has
        no static members: `leave_group` changes nothing.
        """
        self._has_left = True
        self._take_over(accept=self.config.is_implicit and not has_failed)
        await self._leave(CLOSE_REASON, Deadline(timeout_ms))

    async def _leave(self, reason: str, deadline: Deadline) -> None:
        self._take_over(accept=False)
        with anyio.move_on_after(deadline.remaining_ms / 1000):
            await self.fetcher.close()
        await self._group.leave(reason, max(1, deadline.remaining_ms))

    def take_outcomes(self) -> list[Outcome]:
        """Return results of acknowledgements that were not reported yet."""
        found = list(self.fetcher.outcomes)
        self.fetcher.outcomes.clear()
        return found

    # Inside

    def _next_outcome(self) -> Outcome:
        return self.fetcher.outcomes.popleft()

    def _departed(self) -> None:
        departure = self.membership.departure
        if departure is not self._told_of and departure is not None:
            self._told_of = departure
            logger.warning(
                "this consumer is out of share group %r: %s", self.config.group_id, departure.reason
            )

    def _raise_errors(self) -> None:
        self._raise_if_woken()
        error, self.fetcher.error = self.fetcher.error, None
        error = error or self.membership.take_error()
        if error is not None:
            self._group.changed()
            raise error

    def _wait_ms(self, deadline: Deadline | None) -> float | None:
        waits: list[float] = [] if deadline is None else [deadline.remaining_ms]
        if self.fetcher.next_at_ms is not None or self.fetcher.has_pending:
            waits.append(LOOK_MS)
        return min(waits, default=None)


def log_failure(offsets: Offsets, error: KohortError | None) -> None:
    """Log which records' acknowledgements failed: they are redelivered."""
    if error is not None:
        names = ", ".join(f"{len(each)} record(s) of {where}" for where, each in offsets.items())
        logger.warning("the acknowledgements of %s were not kept: %s", names, str(error))

"""A cluster from the view of a Spark driver or task: leaders, log starts and log ends; all blocking.

The client's connections run in a thread of their own, so that requests can be sent ahead. A temporary
failure (a broker that starts, a leader that moves) is retried until `timeout_ms` is over.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Generic, TypeVar
from uuid import UUID

import anyio

from kohort.client import TopicPartition
from kohort.client.cluster import Cluster
from kohort.client.errors import BrokerError, KohortError, NetworkError
from kohort.client.loop_thread import LoopThread
from kohort.client.offsets import list_offsets
from kohort.client.retry import Backoff, Deadline
from kohort.pipeline.closing import Closing
from kohort.pipeline.offsets import Offsets
from kohort.pipeline.servers import CLIENT_ID, Servers
from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import Message

FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 50, 1000
SETUP_TIMEOUT_MS = 10_000

Result = TypeVar("Result")
Answer = TypeVar("Answer", bound=Message)


def new_pauses() -> Backoff:
    """Return the pauses between attempts: short at first, for most of what passes does so at once."""
    return Backoff(FIRST_PAUSE_MS, LONGEST_PAUSE_MS)


class Retries:
    """Retries of one operation until its timeout."""

    def __init__(self, timeout_ms: int) -> None:
        self._deadline = Deadline(timeout_ms)
        self._pauses = new_pauses()

    def pause_after(self, error: KohortError) -> None:
        """Sleep until the next attempt. Raises: `error` when it is permanent, or the time is over."""
        pause_ms = self._pauses.next_ms()
        if not error.retriable or pause_ms > self._deadline.remaining_ms:
            raise error
        time.sleep(pause_ms / 1000)


class Sent(Generic[Answer]):
    """A request in flight; `Brokers.receive` returns its answer."""

    __slots__ = ("_is_answered", "_outcome")

    def __init__(self) -> None:
        self._is_answered = anyio.Event()
        self._outcome: Answer | KohortError | None = None

    def __call__(self, outcome: Answer | KohortError) -> None:
        """Take the answer, or the error. In the thread of the loop."""
        self._outcome = outcome
        self._is_answered.set()

    async def answer(self) -> Answer:
        """Wait for the answer and return it. Raises: KohortError."""
        await self._is_answered.wait()
        assert self._outcome is not None
        if isinstance(self._outcome, KohortError):
            raise self._outcome
        return self._outcome


class Brokers(Closing):
    """A cluster's brokers, connected to when they are needed; a context manager."""

    def __init__(self, servers: Servers, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        config = servers.config(
            request_timeout_ms=timeout_ms,
            socket_connection_setup_timeout_ms=min(timeout_ms, SETUP_TIMEOUT_MS),
            reconnect_backoff_ms=0,  # The caller already pauses between attempts.
        )
        self._cluster = Cluster(config)
        self._loop = LoopThread(self._cluster, CLIENT_ID)

    def close(self) -> None:
        """Close the connections; answers that are awaited are lost."""
        self._loop.stop()

    # What passes

    def retrying(self, attempt: Callable[[], Result]) -> Result:
        """Return what `attempt` returns, which is repeated while its errors are retriable.

        Raises: the last KohortError when the time is over.
        """
        retries = Retries(self._timeout_ms)
        while True:
            try:
                return attempt()
            except KohortError as error:
                self.forget()
                retries.pause_after(error)

    def forget(self) -> None:
        """Close the connections and look leaders up again: something has gone wrong with one."""
        self._loop.call_sync(self._forget)

    def _forget(self) -> None:
        self._cluster.disconnect(NetworkError("another request has failed: this one is sent again"))
        self._cluster.metadata.topics.clear()

    # Questions

    def partitions(self, topics: Iterable[str] | None) -> list[TopicPartition]:
        """Return the partitions of these topics, or with None of all; missing topics are left out.

        Raises: KohortError.
        """
        return self._loop.call(self._partitions, None if topics is None else set(topics))

    async def _partitions(self, topics: set[str] | None) -> list[TopicPartition]:
        await self._cluster.refresh_metadata(topics)
        known = self._cluster.metadata.topics
        found: list[TopicPartition] = []
        for name in sorted(known if topics is None else known.keys() & topics):
            error = self._cluster.topic_error(name)
            if error is not None:
                raise error
            found += [TopicPartition(name, number) for number in sorted(known[name].partitions)]
        return found

    def topic_ids(self, topics: Iterable[str]) -> dict[str, UUID]:
        """Return the ids of these topics, as far as they exist and have one.

        A broker that lags behind may return the id of a deleted topic: the answer of most brokers counts.
        Raises: KohortError, retriable where that is no single id.
        """
        return self._loop.call(self._agreed_topic_ids, set(topics))

    async def _agreed_topic_ids(self, topics: set[str]) -> dict[str, UUID]:
        await self._cluster.refresh_metadata(topics)
        told = await self._cluster.reported_topic_ids(topics)
        known = self._cluster.metadata.topics
        found: dict[str, UUID] = {}
        for name in sorted(topics & known.keys()):
            votes = Counter(each[name] for each in told if name in each)
            if known[name].topic_id.int:
                votes = votes or Counter((known[name].topic_id,))
                (found[name], most), *others = votes.most_common()
                if others and others[0][1] == most:
                    words = f"topic {name!r} has two ids by now: a broker has not heard of the newer one yet"
                    raise BrokerError(ErrorCode.INCONSISTENT_TOPIC_ID, words)
        return found

    def known_topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids of these topics from the last answer about partitions; no broker is asked."""
        return self._loop.call_sync(partial(self._known_topic_ids, set(topics)))

    def _known_topic_ids(self, topics: set[str]) -> dict[str, str]:
        known = self._cluster.metadata.topics
        return {each: str(known[each].topic_id) for each in topics & known.keys() if known[each].topic_id.int}

    def list_offsets(self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool) -> Offsets:
        """Return the first offset at or after each timestamp, or for EARLIEST or LATEST; -1 for none.

        With `read_committed`, LATEST is the last stable offset. Raises: KohortError.
        """
        found = self._loop.call(list_offsets, self._cluster, timestamps, committed_only=read_committed)
        return {partition: each.offset for partition, each in found.items()}

    # Requests to leaders

    def request(self, leader_of: TopicPartition, request: Message, answer: type[Answer]) -> Answer:
        """Return the answer of a partition's leader.

        Raises: KohortError, retriable while there is no leader.
        """
        return self.receive(self.send(leader_of, request, answer))

    def send(
        self, leader_of: TopicPartition, request: Message, answer: type[Answer], *, highest: int | None = None
    ) -> Sent[Answer]:
        """Send a request to a partition's leader, in version `highest` at most; `receive` has the answer.

        Requests to one broker are answered in their order. Raises: KohortError, retriable without a leader.
        """
        return self._loop.call(partial(self._send, leader_of, request, answer, highest))

    async def _send(
        self, leader_of: TopicPartition, request: Message, answer: type[Answer], highest: int | None
    ) -> Sent[Answer]:
        if leader_of.topic not in self._cluster.metadata.topics:
            await self._cluster.refresh_metadata([leader_of.topic])
        connection = await self._cluster.connection(self._cluster.leader(leader_of).leader)
        sent = Sent[Answer]()
        connection.start(request, answer, sent, timeout_ms=self._timeout_ms, highest=highest)
        return sent

    def receive(self, sent: Sent[Answer]) -> Answer:
        """Return the answer to the sent request. Raises: KohortError."""
        return self._loop.call(sent.answer)

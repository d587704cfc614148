"""A cluster as a Spark driver or task asks it: who leads what, where logs begin and end; all blocking.

What may pass (a broker that starts, a leader that moves) is tried again until `timeout_ms` is over.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from kohort.client import TopicPartition
from kohort.client.config import AdminConfig
from kohort.client.errors import BrokerError, KohortError, check
from kohort.client.offsets import list_offsets_request
from kohort.client.retry import Backoff, Deadline
from kohort.pipeline.connection import BrokerConnection
from kohort.pipeline.offsets import Offsets
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import (
    ListOffsetsResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kohort.protocol.schema import ZERO_UUID, Message

FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 50, 1000
ANY_LEADER_EPOCH = -1

Result = TypeVar("Result")
Answer = TypeVar("Answer", bound=Message)


def new_pauses() -> Backoff:
    """Return the pauses between attempts: short at first, for most of what passes does so at once."""
    return Backoff(FIRST_PAUSE_MS, LONGEST_PAUSE_MS)


class Patience:
    """How long something is tried again."""

    def __init__(self, timeout_ms: int) -> None:
        self._deadline = Deadline(timeout_ms)
        self._pauses = new_pauses()

    def pause_after(self, error: KohortError) -> None:
        """Sleep until the next attempt. Raises: `error` when it will not pass, or the time is over."""
        pause_ms = self._pauses.next_ms()
        if not error.retriable or pause_ms > self._deadline.remaining_ms:
            raise error
        time.sleep(pause_ms / 1000)


class Brokers:
    """Connections to a cluster's brokers, made when they are needed; a context manager."""

    def __init__(self, bootstrap: str, timeout_ms: int) -> None:
        self._bootstrap = AdminConfig(bootstrap_servers=bootstrap).bootstrap_addresses
        self._timeout_ms = timeout_ms
        self._connections: dict[tuple[str, int], BrokerConnection] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._leaders: dict[TopicPartition, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        for each in self._connections.values():
            each.close()
        self._connections.clear()

    # What passes

    def retrying(self, attempt: Callable[[], Result]) -> Result:
        """Return what `attempt` returns, which is repeated while its errors are retriable.

        Raises: the last KohortError when the time is over.
        """
        patience = Patience(self._timeout_ms)
        while True:
            try:
                return attempt()
            except KohortError as error:
                self.forget()
                patience.pause_after(error)

    def forget(self) -> None:
        """Close the connections and look leaders up again: something has gone wrong with one."""
        self.close()
        self._leaders.clear()

    # Connections

    def any_connection(self) -> BrokerConnection:
        """Return a connection to a broker that can be reached. Raises: KohortError."""
        for each in self._connections.values():
            return each
        failed: KohortError | None = None
        for address in dict.fromkeys((*self._bootstrap, *self._addresses.values())):
            try:
                return self._connection(address)
            except KohortError as error:
                failed = error
        assert failed is not None, "config gives one bootstrap address at least"
        raise failed

    def leader(self, partition: TopicPartition) -> BrokerConnection:
        """Return a connection to a partition's leader. Raises: KohortError."""
        node_id = self.leader_id(partition)  # This may learn the addresses.
        return self._connection(self._addresses[node_id])

    def leader_id(self, partition: TopicPartition) -> int:
        """Return the id of a partition's leader. Raises: KohortError, retriable while there is none."""
        if partition not in self._leaders:
            self.partitions([partition.topic])
        node_id = self._leaders.get(partition)
        if node_id is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {partition}")
        if node_id not in self._addresses:
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition}")
        return node_id

    def _connection(self, address: tuple[str, int]) -> BrokerConnection:
        found = self._connections.get(address)
        if found is None:
            found = self._connections[address] = BrokerConnection(*address, self._timeout_ms)
        return found

    # Questions

    def partitions(self, topics: Iterable[str] | None) -> list[TopicPartition]:
        """Return the partitions of these topics, or with None of all; what does not exist is left out.

        Raises: KohortError.
        """
        wanted = (
            None
            if topics is None
            else tuple(MetadataRequestTopic(topic_id=ZERO_UUID, name=name) for name in topics)
        )
        answer = self.any_connection().request(
            MetadataRequest(
                topics=wanted,
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            ),
            MetadataResponse,
        )
        self._addresses = {each.node_id: (each.host, each.port) for each in answer.brokers}
        found: list[TopicPartition] = []
        for topic in answer.topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            check(topic.error_code, f"topic {topic.name!r}")
            for each in topic.partitions:
                partition = TopicPartition(topic.name or "", each.partition_index)
                self._leaders[partition] = each.leader_id
                found.append(partition)
        return sorted(found)

    def list_offsets(self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool) -> Offsets:
        """Return the first offset at or after each timestamp, or for EARLIEST or LATEST; -1 for none.

        With `read_committed`, LATEST is the last stable offset. Raises: KohortError.
        """
        nodes: dict[int, list[TopicPartition]] = {}
        for each in timestamps:
            nodes.setdefault(self.leader_id(each), []).append(each)
        found: Offsets = {}
        for node_id, partitions in nodes.items():
            request = list_offsets_request(
                {each: timestamps[each] for each in partitions},
                lambda _: ANY_LEADER_EPOCH,
                committed_only=read_committed,
                timeout_ms=self._timeout_ms,
            )
            connection = self._connection(self._addresses[node_id])
            for topic in connection.request(request, ListOffsetsResponse).topics:
                for told in topic.partitions:
                    partition = TopicPartition(topic.name, told.partition_index)
                    check(told.error_code, f"partition {partition}")
                    found[partition] = told.offset
        return found

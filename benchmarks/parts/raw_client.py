"""Requests to several brokers over bare sockets: encoded once, sent again and again.

A client library would use most of the CPU time on a machine that it shares with the brokers.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from kohort.protocol.headers import RequestHeader
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.records import build_batch
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message

VERSIONS = {
    "ApiVersions": 3,
    "CreateTopics": 5,
    "FindCoordinator": 4,
    "Metadata": 12,
    "OffsetCommit": 8,
    "Produce": 9,
}
ANSWER_SECONDS = 30.0
POLL_SECONDS = 0.001
PATIENCE_SECONDS = 120.0
Address = tuple[str, int]
Answer = TypeVar("Answer", bound=Message)


class Connection:
    """One connection to one broker."""

    def __init__(self, address: Address, seconds: float = ANSWER_SECONDS) -> None:
        self._socket = socket.create_connection(address, seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def send(self, frame: bytes | bytearray) -> None:
        """Send a request."""
        self._socket.sendall(frame)

    def receive(self) -> bytes:
        """Return the next answer with its header. Raises: OSError if the connection is closed."""
        head = self._file.read(4)
        if len(head) < 4:
            raise ConnectionResetError("the broker has closed the connection")
        (size,) = struct.unpack(">i", head)
        body = self._file.read(size)
        if len(body) < size:
            raise ConnectionResetError("the broker has closed the connection")
        return body

    def ask(self, message: Message, kind: type[Answer]) -> Answer:
        """Return the answer to a request."""
        self.send(frame_of(message))
        return decoded(self.receive(), kind)

    def close(self) -> None:
        """Close it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def frame_of(message: Message, client_id: str = "bench") -> bytes:
    """Return an encoded request."""
    name = type(message).__name__.removesuffix("Request")
    api, version = BY_NAME[name], VERSIONS[name]
    header = RequestHeader(
        request_api_key=api.api_key, request_api_version=version, correlation_id=1, client_id=client_id
    )
    frame = header.encode(api.request_header_version(version)) + message.encode(version)
    return struct.pack(">i", len(frame)) + frame


def decoded(answer: bytes, kind: type[Answer]) -> Answer:
    """Return an answer's message."""
    name = kind.__name__.removesuffix("Response")
    header_bytes = 4 + (1 if BY_NAME[name].response_header_version(VERSIONS[name]) else 0)
    return kind.decode(answer[header_bytes:], VERSIONS[name])


def listens(address: Address) -> bool:
    """Return whether a broker answers there."""
    try:
        connection = Connection(address, 2.0)
        try:
            connection.send(
                frame_of(ApiVersionsRequest(client_software_name="bench", client_software_version="1"))
            )
            return bool(connection.receive())
        finally:
            connection.close()
    except OSError:
        return False


# -- a cluster ------------------------------------------------------------------------------------------


def until(holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Return once a condition holds; a broker that is away meanwhile is asked again."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(OSError):
            if holds():
                return
        assert time.monotonic() < deadline, holds
        time.sleep(0.05)  # A condition of another process can only be asked.


def create_topic(address: Address, name: str, partitions: int) -> None:
    """Create a topic with three replicas."""
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=3, assignments=(), configs=()
    )
    connection = Connection(address)
    answer = connection.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=30_000), CreateTopicsResponse)
    connection.close()
    assert not answer.topics[0].error_code, answer


def topic_of(address: Address, name: str) -> MetadataResponseTopic:
    """Return the metadata of a topic from a broker."""
    connection = Connection(address)
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
    (topic,) = connection.ask(request, MetadataResponse).topics
    connection.close()
    return topic


def await_whole(addresses: Iterable[Address], *topics: str) -> None:
    """Return once every broker reports all replicas of these topics as in sync, with a leader."""
    everybody = tuple(addresses)

    def is_whole() -> bool:
        for address in everybody:
            for name in topics:
                topic = topic_of(address, name)
                if topic.error_code or not all(
                    each.leader_id > 0 and len(each.isr_nodes) == len(each.replica_nodes)
                    for each in topic.partitions
                ):
                    return False
        return True

    until(is_whole)


def coordinator(address: Address, group_id: str) -> tuple[int, Address] | None:
    """Return a group's coordinator as this broker reports it; None if it knows none."""
    connection = Connection(address, 2.0)
    try:
        answer = connection.ask(FindCoordinatorRequest(coordinator_keys=(group_id,)), FindCoordinatorResponse)
    finally:
        connection.close()
    (found,) = answer.coordinators
    return None if found.error_code else (found.node_id, (found.host, found.port))


def commit_frame(group_id: str, topic: str, offset: int, partitions: int = 1) -> bytes:
    """Return a commit of a group without members."""
    places = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
        for index in range(partitions)
    )
    return frame_of(
        OffsetCommitRequest(
            group_id=group_id, topics=(OffsetCommitRequestTopic(name=topic, partitions=places),)
        )
    )


def is_committed(answer: bytes) -> bool:
    """Return whether a commit was taken."""
    found = decoded(answer, OffsetCommitResponse)
    return not any(each.error_code for topic in found.topics for each in topic.partitions)


def produce_frame(topic: str, index: int, records: int, value_bytes: int) -> bytes:
    """Return a batch for a partition, for all replicas."""
    batch = build_batch([(int(time.time() * 1_000), None, bytes(value_bytes), ()) for _ in range(records)])
    data = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=index, records=batch),))
    return frame_of(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(data,)))


def is_produced(answer: bytes) -> bool:
    """Return whether a batch was taken."""
    found = decoded(answer, ProduceResponse)
    return not any(each.error_code for topic in found.responses for each in topic.partition_responses)


# -- load -----------------------------------------------------------------------------------------------


class Load(NamedTuple):
    """The work of one connection: the same request again and again, with so many in flight at once."""

    address: Address
    frame: bytes
    depth: int
    is_taken: Callable[[bytes], bool]


def requests_per_second(loads: list[Load], seconds: float) -> float:
    """Return how many requests were answered a second, of all connections together.

    The first answer of each is checked, and so is every hundredth.
    """
    counts = [0] * len(loads)
    failures: list[str] = []
    deadline = time.monotonic() + seconds

    def work(place: int) -> None:
        load = loads[place]
        connection = Connection(load.address)
        try:
            for _ in range(load.depth):
                connection.send(load.frame)
            while time.monotonic() < deadline:
                answer = connection.receive()
                if not counts[place] % 100 and not load.is_taken(answer):
                    failures.append(repr(answer[:80]))
                    return
                counts[place] += 1
                connection.send(load.frame)
            for _ in range(load.depth):
                connection.receive()
        finally:
            connection.close()

    began = time.monotonic()
    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(loads))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures, failures
    return sum(counts) / (time.monotonic() - began)


class Committer(threading.Thread):
    """Commits the offsets of one group one by one, and looks its coordinator up again if that is gone."""

    def __init__(self, addresses: dict[int, Address], group_id: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._addresses = addresses
        self._group_id = group_id
        self._topic = topic
        self._offset = 0
        self._ends = False
        self.taken: deque[tuple[float, int]] = deque(maxlen=100_000)
        """When each commit was acknowledged, and by which broker."""

    def run(self) -> None:
        """The thread's own."""
        while not self._ends:
            with suppress(OSError):
                self._with_coordinator()
            time.sleep(POLL_SECONDS)  # The coordinator may be moving to another broker.

    def _with_coordinator(self) -> None:
        for address in tuple(self._addresses.values()):
            with suppress(OSError):
                found = coordinator(address, self._group_id)
                if found is not None:
                    self._commit_at(*found)
                    return

    def _commit_at(self, node_id: int, address: Address) -> None:
        connection = Connection(address, 2.0)
        try:
            while not self._ends:
                self._offset += 1
                connection.send(commit_frame(self._group_id, self._topic, self._offset))
                if not is_committed(connection.receive()):
                    return
                self.taken.append((time.monotonic(), node_id))
                time.sleep(POLL_SECONDS)  # The pace of the commits.
        finally:
            connection.close()

    def stop(self) -> None:
        """Return when it has ended."""
        self._ends = True
        self.join()

"""The workloads of a broker in memory, API by API: each repeats a conversation many times."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import NamedTuple

from benchmarks.parts.conversations import (
    RECORD_BYTES,
    SESSION_MS,
    ShareMember,
    a_group,
    a_member_id,
    a_topic,
    asked,
    commit,
    committed,
    error_code,
    heartbeat,
    join,
    joined_alone,
    kept,
    metadata,
    offset_fetch,
    pair,
    produce,
    produced,
    repeated,
    together,
    topic_id_of,
)
from benchmarks.parts.in_process import Script, World, decoded, frame

from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.protocol.messages.heartbeat import HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupResponse
from kohort.protocol.messages.metadata import MetadataResponse
from kohort.protocol.messages.offset_commit import OffsetCommitResponse
from kohort.protocol.messages.offset_fetch import OffsetFetchResponse
from kohort.protocol.messages.produce import ProduceResponse
from kohort.protocol.schema import Message

FETCHED_RECORDS = 16
STOCK = 3_000  # Records for members of share groups, which acquire each one once.
WAIT_MS = 100
Scripts = Callable[[int], list[Script]]
"""Makes the scripts that together send so many units of a workload."""


class Workload(NamedTuple):
    """A measurement with its name."""

    name: str
    prepare: Callable[[World], Awaitable[Scripts]]
    units: int = 64
    """How many are asked for at a time."""


# -- groups of the classic protocol ---------------------------------------------------------------------


async def forming(world: World) -> Scripts:
    """A group of two is formed: 2 JoinGroups get an id, 3 join the group, 3 SyncGroups, a Heartbeat."""
    one, other = await world.lines(2)

    def form(times: int) -> Script:
        for _ in range(times):
            yield from pair(one, other, a_group())

    return lambda times: [form(times)]


async def rounds(world: World) -> Scripts:
    """A group of two goes through a rebalance: 2 JoinGroups and 2 SyncGroups."""
    lines, group_id = await world.lines(2), a_group()
    joined: list[list[JoinGroupResponse]] = []
    await world.play([kept(pair(lines[0], lines[1], group_id), joined)])
    members = [each.member_id for each in joined[0]]
    number = count(1)

    def go_round(times: int) -> Script:
        for _ in range(times):
            turn = next(number)
            sends = [(line, join(group_id, each, turn)) for line, each in zip(lines, members, strict=True)]
            yield from together(sends, lines, group_id)

    return lambda times: [go_round(times)]


async def heartbeats(world: World) -> Scripts:
    """A member of a classic group sends heartbeats."""
    (line,), group_id = await world.lines(1), a_group()
    joined: list[JoinGroupResponse] = []
    await world.play([kept(joined_alone(line, group_id), joined)])
    request = frame(heartbeat(group_id, joined[0]))
    return lambda times: [repeated(line, request, times, lambda a: decoded(a, HeartbeatResponse).error_code)]


# -- offsets --------------------------------------------------------------------------------------------


def commits(connections: int, depth: int) -> Callable[[World], Awaitable[Scripts]]:
    """Groups without members commit a partition, one group on each connection."""
    return _of_groups(connections, depth, commit, lambda a: committed(decoded(a, OffsetCommitResponse)))


def offset_fetches(connections: int, depth: int) -> Callable[[World], Awaitable[Scripts]]:
    """The committed offsets of groups in a partition are read, one group on each connection."""

    def check(answer: bytes) -> int:
        (group,) = decoded(answer, OffsetFetchResponse).groups
        assert group.topics[0].partitions[0].committed_offset == 1
        return group.error_code

    return _of_groups(connections, depth, offset_fetch, check)


def _of_groups(
    connections: int, depth: int, request_of: Callable[[str, str], Message], check: Callable[[bytes], int]
) -> Callable[[World], Awaitable[Scripts]]:
    """Groups that have committed a partition send a request, one group on each connection."""

    async def prepare(world: World) -> Scripts:
        lines = await world.lines(connections)
        topic = await a_topic(world, lines[0])
        groups = [a_group() for _ in lines]
        for line, group_id in zip(lines, groups, strict=True):
            await asked(world, line, commit(group_id, topic), OffsetCommitResponse, committed)
        requests = [frame(request_of(each, topic)) for each in groups]
        return lambda times: [
            repeated(line, request, times // connections, check, depth)
            for line, request in zip(lines, requests, strict=True)
        ]

    return prepare


# -- records --------------------------------------------------------------------------------------------


def produces(depth: int) -> Callable[[World], Awaitable[Scripts]]:
    """A record of 100 bytes is written, with so many requests in flight."""

    async def prepare(world: World) -> Scripts:
        (line,) = await world.lines(1)
        request = frame(produce(await a_topic(world, line)))
        return lambda times: [
            repeated(line, request, times, lambda a: produced(decoded(a, ProduceResponse)), depth)
        ]

    return prepare


async def fetches(world: World) -> Scripts:
    """The same 16 records are read, without a session."""
    (line,) = await world.lines(1)
    topic = await a_topic(world, line)
    values = [bytes(RECORD_BYTES)] * FETCHED_RECORDS
    await asked(world, line, produce(topic, values), ProduceResponse, produced)
    partition = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1_048_576)
    request = FetchRequest(
        max_wait_ms=WAIT_MS, min_bytes=1, topics=(FetchTopic(topic=topic, partitions=(partition,)),)
    )

    def check(answer: bytes) -> int:
        (found,) = decoded(answer, FetchResponse).responses[0].partitions
        assert found.records, found
        return found.error_code

    return lambda times: [repeated(line, frame(request), times, check)]


# -- questions ------------------------------------------------------------------------------------------


async def api_versions(world: World) -> Scripts:
    """A client reads the supported versions of the broker."""
    (line,) = await world.lines(1)
    request = frame(ApiVersionsRequest(client_software_name="budget", client_software_version="1"))
    return lambda times: [repeated(line, request, times, lambda answer: int.from_bytes(answer[4:6], "big"))]


async def metadatas(world: World) -> Scripts:
    """A client reads the leaders of a topic of eight partitions."""
    (line,) = await world.lines(1)
    request = metadata(await a_topic(world, line, 8))

    def check(answer: bytes) -> int:
        (topic,) = decoded(answer, MetadataResponse).topics
        assert len(topic.partitions) == 8
        return topic.error_code

    return lambda times: [repeated(line, frame(request), times, check)]


async def find_coordinators(world: World) -> Scripts:
    """A client looks up the coordinator of a group."""
    (line,) = await world.lines(1)
    request = FindCoordinatorRequest(coordinator_keys=(a_group(),))

    def code(found: FindCoordinatorResponse) -> int:
        return found.coordinators[0].error_code

    await asked(world, line, request, FindCoordinatorResponse, code)
    return lambda times: [
        repeated(line, frame(request), times, lambda answer: code(decoded(answer, FindCoordinatorResponse)))
    ]


# -- newer groups ---------------------------------------------------------------------------------------


async def consumer_heartbeats(world: World) -> Scripts:
    """A member of a consumer-protocol group sends heartbeats; it owns its target assignment."""
    (line,), group_id, member_id = await world.lines(1), a_group(), a_member_id()
    topic = await a_topic(world, line)
    topic_id = await topic_id_of(world, line, topic)
    hello = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=SESSION_MS,
        subscribed_topic_names=(topic,),
        topic_partitions=(),
    )
    found = await asked(world, line, hello, ConsumerGroupHeartbeatResponse, error_code)
    own = ConsumerGroupHeartbeatTopicPartitions(topic_id=topic_id, partitions=(0,))
    for topic_partitions in ((own,), None):
        alive = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=found.member_epoch,
            topic_partitions=topic_partitions,
        )
        found = await asked(world, line, alive, ConsumerGroupHeartbeatResponse, error_code)

    def check(answer: bytes) -> int:
        return decoded(answer, ConsumerGroupHeartbeatResponse).error_code

    return lambda times: [repeated(line, frame(alive), times, check)]


async def share_fetches(world: World) -> Scripts:
    """A member of a share group takes a record and accepts it: a ShareFetch and a ShareAcknowledge."""
    (line,) = await world.lines(1)
    topic = await a_topic(world, line)
    member = ShareMember(line, await topic_id_of(world, line, topic))
    await member.enter(world, topic)
    written = frame(produce(topic))

    def check(answer: bytes) -> int:
        return produced(decoded(answer, ProduceResponse))

    await world.play([repeated(line, written, STOCK, check)])
    return lambda times: [member.worked(times)]


WORKLOADS = (
    Workload("ApiVersions", api_versions),
    Workload("Metadata, 8 partitions", metadatas),
    Workload("FindCoordinator", find_coordinators),
    Workload("Heartbeat", heartbeats),
    Workload("a group of two formed", forming, 32),
    Workload("a round of a group of two", rounds, 32),
    Workload("OffsetCommit", commits(1, 1)),
    Workload("OffsetCommit, 16 connections", commits(16, 1), 256),
    Workload("OffsetCommit, 16 x 16", commits(16, 16), 512),
    Workload("OffsetFetch", offset_fetches(1, 1)),
    Workload("OffsetFetch, 16 x 16", offset_fetches(16, 16), 512),
    Workload("Produce, 1 record", produces(1)),
    Workload("Produce, 1 record, 5 in flight", produces(5), 65),
    Workload("Fetch, 16 records", fetches),
    Workload("ConsumerGroupHeartbeat", consumer_heartbeats),
    Workload("ShareFetch and ShareAcknowledge", share_fetches, 32),
)

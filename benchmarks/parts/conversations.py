"""The requests of clients to a broker in memory, and the scripts that send them: for `in_process.World`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import cache
from itertools import count
from typing import Protocol, TypeVar
from uuid import UUID

import trio
from benchmarks.parts.in_process import PATIENCE_SECONDS, Line, Script, Step, World, decoded, frame

from kohort.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.messages.share_acknowledge import (
    ShareAcknowledgeBatch,
    ShareAcknowledgePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopic,
)
from kohort.protocol.messages.share_fetch import (
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
)
from kohort.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kohort.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kohort.protocol.records import build_batch
from kohort.protocol.schema import Message

TOPIC = "budget"
SESSION_MS = 60_000
RECORD_BYTES = 100
ROUNDS_MAX = 500  # Of a member that waits to be given something.
HEARTBEAT_MS = 1_000
SUBSCRIPTIONS = tuple(
    ConsumerProtocolSubscription(
        topics=(TOPIC,), user_data=bytes((number,)), owned_partitions=()
    ).encode_versioned()
    for number in range(2)
)
_numbers = count(1)
A = TypeVar("A", bound=Message)
R = TypeVar("R")
Asking = Generator[Step, list[bytes], R]


class Coded(Protocol):
    """An answer with one code for all of it."""

    @property
    def error_code(self) -> int:
        """0 where it went well."""
        ...


LOADING = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)


# -- what all of them take ------------------------------------------------------------------------------


def repeated(line: Line, request: bytes, times: int, check: Callable[[bytes], int], depth: int = 1) -> Script:
    """Send the same request again and again, so many at a time; the last answer of each time has no error."""
    together, awaits = request * depth, [line] * depth
    for _ in range(times // depth):
        answers = yield Step(((line, together),), awaits)
        expect(check(answers[-1]))


def expect(code: int) -> None:
    """Return if that is no error."""
    assert code == ErrorCode.NONE, ErrorCode(code).name


def ask(line: Line, message: Message, kind: type[A], code: Callable[[A], int]) -> Asking[A]:
    """Return the answer, which has no error."""
    (answer,) = yield Step(((line, frame(message)),), (line,))
    found = decoded(answer, kind)
    expect(code(found))
    return found


def kept(asking: Asking[A], answers: list[A]) -> Script:
    """Put an answer into a list."""
    answers.append((yield from asking))


async def asked(world: World, line: Line, message: Message, kind: type[A], code: Callable[[A], int]) -> A:
    """Return the answer, asked for again while the broker is not ready. Raises: trio.TooSlowError."""
    answers: list[A] = []
    with trio.fail_after(PATIENCE_SECONDS):
        while True:
            await world.play([kept(ask(line, message, kind, lambda found: ErrorCode.NONE), answers)])
            found = answers.pop()
            if code(found) not in LOADING:
                expect(code(found))
                return found
            await trio.sleep(0.005)  # Threads of the broker load the requested data.


async def a_topic(world: World, line: Line, partitions: int = 1) -> str:
    """Return the name of a new topic whose partitions can be written."""
    name = f"{TOPIC}-{next(_numbers)}"
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=()
    )
    request = CreateTopicsRequest(topics=(topic,), timeout_ms=30_000)
    await asked(world, line, request, CreateTopicsResponse, lambda found: found.topics[0].error_code)
    await asked(world, line, produce(name), ProduceResponse, produced)
    return name


async def topic_id_of(world: World, line: Line, name: str) -> UUID:
    """Return a topic's id."""
    found = await asked(
        world, line, metadata(name), MetadataResponse, lambda found: found.topics[0].error_code
    )
    return found.topics[0].topic_id


def a_group() -> str:
    """Return an id that no group has had."""
    return f"group-{next(_numbers)}"


def a_member_id() -> str:
    """Return an id that no member of a newer group has had."""
    return str(UUID(int=next(_numbers)))


def error_code(found: Coded) -> int:
    """Return the one code of an answer."""
    return found.error_code


# -- requests -------------------------------------------------------------------------------------------


def metadata(topic: str) -> MetadataRequest:
    return MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)


def produce(
    topic: str, values: Sequence[bytes] = (bytes(RECORD_BYTES),), timestamp_ms: int = 1_700_000_000_000
) -> ProduceRequest:
    batch = build_batch([(timestamp_ms, None, value, ()) for value in values])
    data = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=batch),))
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(data,))


def produced(found: ProduceResponse) -> int:
    return found.responses[0].partition_responses[0].error_code


def commit(group_id: str, topic: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    return OffsetCommitRequest(
        group_id=group_id, topics=(OffsetCommitRequestTopic(name=topic, partitions=(partition,)),)
    )


def committed(found: OffsetCommitResponse) -> int:
    return found.topics[0].partitions[0].error_code


def offset_fetch(group_id: str, topic: str) -> OffsetFetchRequest:
    topics = (OffsetFetchRequestTopics(name=topic, partition_indexes=(0,)),)
    return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group_id, topics=topics),))


def join(
    group_id: str, member_id: str, round_number: int = 0, session_ms: int = SESSION_MS
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=SESSION_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTIONS[round_number % 2]),),
    )


def sync(group_id: str, joined: JoinGroupResponse) -> SyncGroupRequest:
    """Return the next request of a member, for a leader with a partition for each member."""
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=each.member_id, assignment=_assignment(number))
            for number, each in enumerate(joined.members)
        ),
    )


@cache
def _assignment(number: int) -> bytes:
    given = (TopicPartitions(topic=TOPIC, partitions=(number,)),)
    return ConsumerProtocolAssignment(assigned_partitions=given).encode_versioned()


def heartbeat(group_id: str, joined: JoinGroupResponse) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group_id, generation_id=joined.generation_id, member_id=joined.member_id)


# -- groups of the classic protocol ---------------------------------------------------------------------


def first_join(line: Line, group_id: str) -> Asking[str]:
    """Return the id that the broker gives a new member."""
    while True:
        (answer,) = yield Step(((line, frame(join(group_id, ""))),), (line,))
        found = decoded(answer, JoinGroupResponse)
        if found.error_code not in LOADING:
            assert found.error_code == ErrorCode.MEMBER_ID_REQUIRED, found
            return found.member_id


def joined_alone(line: Line, group_id: str) -> Asking[JoinGroupResponse]:
    """Make a group of one."""
    member_id = yield from first_join(line, group_id)
    found = yield from ask(line, join(group_id, member_id), JoinGroupResponse, error_code)
    yield from ask(line, sync(group_id, found), SyncGroupResponse, error_code)
    return found


def pair(one: Line, other: Line, group_id: str) -> Asking[list[JoinGroupResponse]]:
    """Make a group of two: the first member joins, the second joins, the first sees the rebalance and
    rejoins."""
    first = yield from joined_alone(one, group_id)
    member_id = yield from first_join(other, group_id)
    yield Step(((other, frame(join(group_id, member_id))),), ())
    (answer,) = yield Step(((one, frame(heartbeat(group_id, first))),), (one,))
    assert decoded(answer, HeartbeatResponse).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    return (yield from together(((one, join(group_id, first.member_id)),), (one, other), group_id))


def together(
    sends: Sequence[tuple[Line, JoinGroupRequest]], lines: Sequence[Line], group_id: str
) -> Asking[list[JoinGroupResponse]]:
    """Send the missing joins; let every member sync once all have an answer."""
    answers = yield Step([(line, frame(each)) for line, each in sends], lines)
    joined = [decoded(each, JoinGroupResponse) for each in answers]
    asks = [(line, frame(sync(group_id, each))) for line, each in zip(lines, joined, strict=True)]
    for each in (yield Step(asks, lines)):
        expect(decoded(each, SyncGroupResponse).error_code)
    return joined


# -- share groups ---------------------------------------------------------------------------------------


class ShareMember:
    """A member of a share group, with a session for one partition."""

    def __init__(self, line: Line, topic_id: UUID) -> None:
        self.line = line
        self.group_id = a_group()
        self.member_id = a_member_id()
        self._topic_id = topic_id
        self._epoch = 0

    async def enter(self, world: World, topic: str) -> None:
        """Join, and open the session once the member has the partition."""
        hello = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=0, subscribed_topic_names=(topic,)
        )
        found = await asked(world, self.line, hello, ShareGroupHeartbeatResponse, error_code)
        for _ in range(ROUNDS_MAX):
            if found.assignment is not None and found.assignment.topic_partitions:
                break
            world.pass_time(HEARTBEAT_MS)
            alive = ShareGroupHeartbeatRequest(
                group_id=self.group_id, member_id=self.member_id, member_epoch=found.member_epoch
            )
            found = await asked(world, self.line, alive, ShareGroupHeartbeatResponse, error_code)
        assert found.assignment is not None
        await asked(world, self.line, self._fetch(), ShareFetchResponse, error_code)
        self._epoch += 1

    def worked(self, times: int) -> Script:
        """Take a record and accept it, so often: a ShareFetch and a ShareAcknowledge each."""
        for _ in range(times):
            (answer,) = yield Step(((self.line, frame(self._fetch())),), (self.line,))
            self._epoch += 1
            found = decoded(answer, ShareFetchResponse).responses[0].partitions[0]
            expect(found.error_code)
            (acquired,) = found.acquired_records
            assert acquired.first_offset == acquired.last_offset
            batch = ShareAcknowledgeBatch(
                first_offset=acquired.first_offset, last_offset=acquired.last_offset, acknowledge_types=(1,)
            )
            partition = ShareAcknowledgePartition(partition_index=0, acknowledgement_batches=(batch,))
            request = ShareAcknowledgeRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                share_session_epoch=self._epoch,
                topics=(ShareAcknowledgeTopic(topic_id=self._topic_id, partitions=(partition,)),),
            )
            (answer,) = yield Step(((self.line, frame(request)),), (self.line,))
            self._epoch += 1
            expect(decoded(answer, ShareAcknowledgeResponse).responses[0].partitions[0].error_code)

    def _fetch(self) -> ShareFetchRequest:
        partition = ShareFetchPartition(partition_index=0, acknowledgement_batches=())
        return ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=0,
            min_bytes=0,
            max_records=1,
            batch_size=1,
            topics=(ShareFetchTopic(topic_id=self._topic_id, partitions=(partition,)),),
            forgotten_topics_data=(),
        )

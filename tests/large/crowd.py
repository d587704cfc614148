"""Many members of many groups, each on a connection of its own, moved through the protocol together.

Every step is sent by all before anybody's answer is read, as it is with members that do not know of each
other. Sockets block: a broker answers everybody in the end, or a timeout says who was forgotten.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Sequence
from typing import TypeVar

from kohort.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions
from kohort.protocol.errors import ErrorCode
from kohort.protocol.headers import RequestHeader
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message

ANSWER_TIMEOUT_S = 60.0
TOLD_S_MAX = 10.0  # a member that asks again and again is told of a rebalance within this
SESSION_MS, REBALANCE_MS = 60_000, 60_000
TOPIC = "crowded"
SUBSCRIPTION = ConsumerProtocolSubscription(topics=(TOPIC,), owned_partitions=()).encode_versioned()

M = TypeVar("M", bound=Message)


class Caller:
    """A connection that sends one request and later reads its answer."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(ANSWER_TIMEOUT_S)
        self._answers = self._socket.makefile("rb")
        self._version = 0

    def send(self, message: Message, version: int | None = None) -> None:
        """Send the request, in its newest version if none is said."""
        api = BY_NAME[type(message).__name__.removesuffix("Request")]
        self._version = api.versions.highest if version is None else version
        header = RequestHeader(
            request_api_key=api.api_key,
            request_api_version=self._version,
            correlation_id=0,
            client_id="crowd",
        )
        data = header.encode(api.request_header_version(self._version)) + message.encode(self._version)
        self._socket.sendall(len(data).to_bytes(4, "big") + data)

    def answer(self, kind: type[M]) -> M:
        """Return the answer to what was sent. Raises: TimeoutError."""
        api = BY_NAME[kind.__name__.removesuffix("Response")]
        size = int.from_bytes(self._answers.read(4), "big")
        frame = self._answers.read(size)
        assert len(frame) == size, "the broker closed the connection"
        return kind.decode(frame[5 if api.response_header_version(self._version) else 4 :], self._version)

    def ask(self, message: Message, kind: type[M], version: int | None = None) -> M:
        """Return the answer to this request."""
        self.send(message, version)
        return self.answer(kind)

    def close(self) -> None:
        """Go without a word."""
        self._answers.close()
        self._socket.close()


class Member:
    """One member: what it was told of itself."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.member_id = ""
        self.generation_id = -1
        self.others: tuple[str, ...] = ()
        self.share: tuple[int, ...] = ()
        self.caller: Caller | None = None

    @property
    def line(self) -> Caller:
        """The member's connection."""
        assert self.caller is not None
        return self.caller


class Crowd:
    """All members of all groups."""

    def __init__(self, groups: int, members: int) -> None:
        self.groups = [f"crowd-{members}-{number}" for number in range(groups)]
        self.members = [Member(group_id) for group_id in self.groups for _ in range(members)]

    def connect(self, address: tuple[str, int]) -> None:
        """Give every member a connection of its own."""
        for each in self.members:
            if each.caller is not None:
                each.caller.close()
            each.caller = Caller(address)

    def close(self) -> None:
        """Let all connections go."""
        for each in self.members:
            each.line.close()

    def form(self) -> None:
        """Return when every group is stable with all its members."""
        self._join(self.members)
        asked = [each for each in self.members if each.generation_id < 0]
        self._join(asked)
        self._sync()

    def rebalance(self) -> None:
        """Return when every group is stable again, one generation later, after its leader has rejoined."""
        before = {each.member_id: each.generation_id for each in self.members}
        leaders = [each for each in self.members if each.others]
        for each in leaders:
            each.line.send(_join_request(each))
        followers = [each for each in self.members if not each.others]
        self._hear_of_rebalance(followers)
        self._join(followers, also=leaders)
        assert all(each.generation_id == before[each.member_id] + 1 for each in self.members)
        self._sync()

    def _hear_of_rebalance(self, followers: Sequence[Member]) -> None:
        """Send each one heartbeats until it is told: the first may overtake its leader's join."""
        deadline_s = time.monotonic() + TOLD_S_MAX
        untold = list(followers)
        while untold:
            codes = self.heartbeats(untold)
            assert set(codes) <= {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}, codes
            untold = [each for each, code in zip(untold, codes, strict=True) if code == ErrorCode.NONE]
            assert time.monotonic() < deadline_s, [each.group_id for each in untold]

    def heartbeats(self, members: Iterable[Member] | None = None) -> list[int]:
        """Return the code that each member's heartbeat is answered with."""
        everybody = list(self.members if members is None else members)
        for each in everybody:
            each.line.send(
                HeartbeatRequest(
                    group_id=each.group_id, generation_id=each.generation_id, member_id=each.member_id
                )
            )
        return [each.line.answer(HeartbeatResponse).error_code for each in everybody]

    def commits(self) -> list[int]:
        """Let every member commit what it owns; return the codes."""
        for each in self.members:
            partitions = tuple(
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=1_000 + index, committed_metadata=""
                )
                for index in each.share
            )
            each.line.send(
                OffsetCommitRequest(
                    group_id=each.group_id,
                    generation_id_or_member_epoch=each.generation_id,
                    member_id=each.member_id,
                    topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=partitions),),
                ),
                9,
            )
        answers = [each.line.answer(OffsetCommitResponse) for each in self.members]
        return [part.error_code for each in answers for topic in each.topics for part in topic.partitions]

    def _join(self, members: Sequence[Member], also: Sequence[Member] = ()) -> None:
        """Let these join, and take the answers of those who asked before as well."""
        for each in members:
            each.line.send(_join_request(each))
        for each in (*members, *also):
            answer = each.line.answer(JoinGroupResponse)
            assert answer.error_code in {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED}, answer
            each.member_id, each.generation_id = answer.member_id, answer.generation_id
            each.others = tuple(other.member_id for other in answer.members)

    def _sync(self) -> None:
        """Let followers ask first and leaders hand out then; everybody gets one partition of its own."""
        for each in sorted(self.members, key=lambda each: bool(each.others)):
            each.line.send(_sync_request(each))
        for each in self.members:
            answer = each.line.answer(SyncGroupResponse)
            assert answer.error_code == ErrorCode.NONE, answer
            assigned = ConsumerProtocolAssignment.decode_versioned(answer.assignment).assigned_partitions
            each.share = tuple(index for topic in assigned for index in topic.partitions)


def _join_request(member: Member) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=member.group_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member.member_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION),),
    )


def _sync_request(member: Member) -> SyncGroupRequest:
    def part(index: int) -> bytes:
        given = (TopicPartitions(topic=TOPIC, partitions=(index,)),)
        return ConsumerProtocolAssignment(assigned_partitions=given).encode_versioned()

    return SyncGroupRequest(
        group_id=member.group_id,
        generation_id=member.generation_id,
        member_id=member.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=other, assignment=part(index))
            for index, other in enumerate(member.others)
        ),
    )

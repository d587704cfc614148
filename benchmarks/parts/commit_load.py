"""Commits of many groups at a rate: as requests of clients, or as the batches that a coordinator writes.

Requests and batches are encoded once. For each round their offsets are set to the next one.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.parts.raw_client import Address, Connection, frame_of, is_committed, is_produced, until

from kohort.observe.topics import partition_of
from kohort.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from kohort.protocol.records import batch_crc, build_batch
from kohort.protocol.records.header import CRC_POSITION

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 50
MARK = 0x1122_3344_5566_7788
"""The offset as it is encoded at first: its place is found by it."""
MEMBERS = 2
_MARK = struct.pack(">q", MARK)
_SET = struct.Struct(">q").pack_into
_TIMES_POSITION = 27
"""Where a batch has its base timestamp and its largest one."""
_CRC, _TIMES = struct.Struct(">I"), struct.Struct(">qq")


def _places(frame: bytes | bytearray, begin: int = 0) -> list[int]:
    """Return where the offsets are in an encoded message."""
    found: list[int] = []
    place = frame.find(_MARK, begin)
    while place >= 0:
        found.append(place)
        place = frame.find(_MARK, place + len(_MARK))
    return found


class CommitRequests:
    """One OffsetCommit request of each group, as a client without a member sends it."""

    def __init__(self, groups: int, topics: Sequence[str]) -> None:
        self.records = groups * len(topics)
        self.is_taken = is_committed
        self.connections, self.depth = 64, 2  # Apache Kafka answers one after another on each.
        self._frames = [bytearray(self._frame(each, topics)) for each in range(groups)]
        self._places = [_places(each) for each in self._frames]

    @staticmethod
    def _frame(group: int, topics: Sequence[str]) -> bytes:
        place = OffsetCommitRequestPartition(
            partition_index=group, committed_offset=MARK, committed_metadata=""
        )
        each = tuple(OffsetCommitRequestTopic(name=topic, partitions=(place,)) for topic in topics)
        return frame_of(OffsetCommitRequest(group_id=f"group-{group}", topics=each))

    def frames(self, offset: int) -> Iterator[tuple[bytearray, int]]:
        """Yield each request of a round, with the number of its commits."""
        for frame, places in zip(self._frames, self._places, strict=True):
            for each in places:
                _SET(frame, each, offset)
            yield frame, len(places)


class CoordinatorBatches:
    """One batch of each group, many groups in a Produce request: as a coordinator writes them.

    Apache Kafka lets clients of the name `__admin_client` write to internal topics.
    """

    def __init__(self, groups: int, topics: Sequence[str]) -> None:
        self.records = groups * len(topics)
        self.is_taken = is_produced
        self.connections, self.depth = 4, 2
        by_partition: dict[int, list[int]] = {}
        for group in range(groups):
            place = partition_of(f"group-{group}", OFFSETS_PARTITIONS)
            by_partition.setdefault(place, []).append(group)
        self._frames: list[tuple[bytearray, list[tuple[int, int, list[int]]]]] = []
        self.generations: list[bytearray] = []
        for nth in range(max(map(len, by_partition.values()))):
            those = {place: groups[nth] for place, groups in by_partition.items() if nth < len(groups)}
            batches = {place: self._batch(group, topics) for place, group in those.items()}
            frame = _produce_frame(batches)
            self._frames.append((frame, [_of_batch(frame, each) for each in batches.values()]))
            generations = {place: _generation(group, topics) for place, group in those.items()}
            self.generations.append(_produce_frame(generations))

    @staticmethod
    def _batch(group: int, topics: Sequence[str]) -> bytes:
        now_ms = time.time_ns() // 1_000_000
        value = encode_value(OffsetCommitValue(offset=MARK, metadata="", commit_timestamp=now_ms))
        keys = [
            encode_key(OffsetCommitKey(group=f"group-{group}", topic=each, partition=group))
            for each in topics
        ]
        return build_batch([(now_ms, key, value, ()) for key in keys])

    def frames(self, offset: int) -> Iterator[tuple[bytearray, int]]:
        """Yield each request of a round, with the number of its commits."""
        now_ms = time.time_ns() // 1_000_000
        for frame, batches in self._frames:
            view, count = memoryview(frame), 0
            for begin, end, places in batches:
                for each in places:
                    _SET(frame, each, offset)
                _TIMES.pack_into(frame, begin + _TIMES_POSITION, now_ms, now_ms)
                _CRC.pack_into(frame, begin + CRC_POSITION, batch_crc(view[begin:end]))
                count += len(places)
            yield frame, count


def _is_written(line: Connection, load: CommitRequests | CoordinatorBatches, frame: bytearray) -> bool:
    line.send(frame)
    return load.is_taken(line.receive())


def _of_batch(frame: bytearray, batch: bytes) -> tuple[int, int, list[int]]:
    """Return where a batch begins and ends in a request, and the places of its offsets."""
    begin = frame.index(batch)
    end = begin + len(batch)
    return begin, end, [each for each in _places(frame, begin) if each < end]


def _produce_frame(batches: dict[int, bytes]) -> bytearray:
    data = tuple(PartitionProduceData(index=place, records=each) for place, each in batches.items())
    topic = TopicProduceData(name=OFFSETS_TOPIC, partition_data=data)
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=(topic,))
    return bytearray(frame_of(request, "__admin_client"))


def _generation(group: int, topics: Sequence[str]) -> bytes:
    """Return the record of a group with its members, each with its share of the topics."""
    members = []
    for nth in range(MEMBERS):
        owned = tuple(TopicPartitions(topic=each, partitions=(group,)) for each in topics[nth::MEMBERS])
        members.append(
            MemberMetadata(
                member_id=f"member-{nth}",
                client_id="bench",
                client_host="/127.0.0.1",
                rebalance_timeout=300_000,
                session_timeout=45_000,
                subscription=ConsumerProtocolSubscription(topics=tuple(topics)).encode_versioned(1),
                assignment=ConsumerProtocolAssignment(assigned_partitions=owned).encode_versioned(1),
            )
        )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader="member-0",
        current_state_timestamp=0,
        members=tuple(members),
    )
    now_ms = time.time_ns() // 1_000_000
    return build_batch(
        [(now_ms, encode_key(GroupMetadataKey(group=f"group-{group}")), encode_value(value), ())]
    )


def write(
    address: Address, load: CommitRequests | CoordinatorBatches, rate: int, count: int, begin: int = 0
) -> float:
    """Write `count` commits at `rate` a second, with 0 as fast as possible; return the rate that it was.

    Offsets begin after `begin`. Raises: AssertionError for one that is refused.
    """
    lines = [Connection(address) for _ in range(load.connections)]
    waiting = [0] * len(lines)
    if isinstance(load, CoordinatorBatches) and not begin:
        for each in load.generations:
            assert _is_written(lines[0], load, each)
    for first, _ in load.frames(begin):  # Coordinators may be loading their groups still.
        until(partial(_is_written, lines[0], load, first))
    began, written, offset, turn, answers = time.monotonic(), 0, begin, 0, 0
    while written < count:
        offset += 1
        for frame, commits in load.frames(offset):
            turn = (turn + 1) % len(lines)  # A group's next request is sent long after its answer.
            if waiting[turn] >= load.depth:
                answer = lines[turn].receive()
                waiting[turn] -= 1
                answers += 1
                assert answers % 100 or load.is_taken(answer), answer[:80]
            lines[turn].send(frame)
            waiting[turn] += 1
            written += commits
            ahead = written / rate - (time.monotonic() - began) if rate else 0
            if ahead > 0.002:
                time.sleep(ahead)  # The rate that is asked for.
    for line, left in zip(lines, waiting, strict=True):
        for _ in range(left):
            assert load.is_taken(line.receive())
        line.close()
    return written / (time.monotonic() - began)

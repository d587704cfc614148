"""How much faster the compiled codec is than construct, message by message, in one run.

python benchmarks/codec.py [ROUNDS]     ends with status 1 where a limit of the project is passed

Each round measures both, one after the other, so that other work of the machine affects both alike;
the table shows the median of the rounds in microseconds for one call.
"""

import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version as version_of
from pathlib import Path
from typing import NamedTuple, TypeVar
from uuid import UUID

from kohort.protocol import compiler, constructs
from kohort.protocol.consumer import ConsumerProtocolSubscription
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kohort.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.messages.sync_group import SyncGroupRequest
from kohort.protocol.offsets_topic import OffsetCommitValue
from kohort.protocol.schema import Message

ROUNDS = 7
MEASURED_S = 0.02  # for each of the four in each round
RATIO_MIN = 5.0  # The compiled codec earns its place by this much at least, for each message.

M = TypeVar("M", bound=Message)
MEMBER_ID = "consumer-1-7a6f2d0c-90a1-4d3e-8f5b-1c2d3e4f5a6b"


class Case(NamedTuple):
    """A typical message, and the version that current clients use."""

    message: Message
    version: int

    @property
    def title(self) -> str:
        return f"{type(self.message).__name__} v{self.version}"


class Times(NamedTuple):
    """Microseconds for one call."""

    construct_decode: float
    compiled_decode: float
    construct_encode: float
    compiled_encode: float


def of(cls: type[M], **values: object) -> M:
    """Return a message with its other fields at their defaults."""
    return cls(**values)


def cases() -> list[Case]:
    """Return the most frequent requests and responses of a consumer group."""
    subscription = of(ConsumerProtocolSubscription, topics=("flights",)).encode_versioned()
    members = tuple(
        of(JoinGroupResponseMember, member_id=f"{MEMBER_ID}{number}", metadata=subscription)
        for number in range(100)
    )
    topic = of(
        MetadataResponseTopic,
        name="flights",
        topic_id=UUID(int=7),
        partitions=tuple(
            of(MetadataResponsePartition, partition_index=each, replica_nodes=(1,), isr_nodes=(1,))
            for each in range(50)
        ),
    )
    broker = of(MetadataResponseBroker, node_id=1, host="localhost", port=9092)
    group = {"group_id": "group-one", "member_id": MEMBER_ID, "generation_id": 3}
    return [
        Case(of(HeartbeatRequest, **group), 4),
        Case(of(HeartbeatResponse), 4),
        Case(offset_commit(1), 8),
        Case(offset_commit(50), 8),
        Case(of(JoinGroupResponse, protocol_name="range", leader=MEMBER_ID, members=members), 9),
        Case(of(SyncGroupRequest, **group, protocol_type="consumer", protocol_name="range"), 5),
        Case(of(MetadataResponse, brokers=(broker,), topics=(topic,)), 12),
        Case(fetch(10), 13),
        Case(produce(16_384), 9),
        Case(of(OffsetCommitValue, offset=4711, commit_timestamp=1_700_000_000_000), 3),
    ]


def offset_commit(partitions: int) -> OffsetCommitRequest:
    """Return a commit of that many partitions of one topic."""
    committed = tuple(
        of(OffsetCommitRequestPartition, partition_index=each, committed_offset=1000 + each)
        for each in range(partitions)
    )
    topics = (of(OffsetCommitRequestTopic, name="flights", partitions=committed),)
    return of(
        OffsetCommitRequest,
        group_id="group-one",
        generation_id_or_member_epoch=3,
        member_id=MEMBER_ID,
        topics=topics,
    )


def fetch(partitions: int) -> FetchRequest:
    """Return a fetch from that many partitions of one topic."""
    wanted = tuple(
        of(FetchPartition, partition=each, fetch_offset=each, partition_max_bytes=1 << 20)
        for each in range(partitions)
    )
    topics = (of(FetchTopic, topic_id=UUID(int=7), partitions=wanted),)
    return of(FetchRequest, max_wait_ms=500, min_bytes=1, topics=topics)


def produce(size_bytes: int) -> ProduceRequest:
    """Return a request to append one batch of that size."""
    partition = of(PartitionProduceData, records=bytes(size_bytes))
    topics = (of(TopicProduceData, name="flights", partition_data=(partition,)),)
    return of(ProduceRequest, acks=-1, timeout_ms=30_000, topic_data=topics)


def microseconds(call: Callable[[], object]) -> float:
    """Return how long one call takes, measured over many."""
    calls, took_s = 1, 0.0
    while took_s < MEASURED_S:
        calls *= 2
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        took_s = time.perf_counter() - begin
    return took_s / calls * 1e6


def measure(case: Case, rounds: int) -> Times:
    """Return the medians of the four ways through a message."""
    message, version = case
    cls, data = type(message), message.encode(version)
    assert cls.decode(data, version) == constructs.parse(cls, data, version) == message
    assert constructs.build(message, version) == data
    form = constructs.construct_of(cls, version)
    container = form.parse(data)
    ways: tuple[Callable[[], object], ...] = (
        lambda: form.parse(data),
        lambda: cls.decode(data, version),
        lambda: form.build(container),
        lambda: message.encode(version),
    )
    measured = [[microseconds(way) for way in ways] for _ in range(rounds)]
    return Times(*(statistics.median(column) for column in zip(*measured, strict=True)))


def compile_milliseconds() -> float:
    """Return how long it takes to write and compile the decoder and the encoder of one message."""
    begin = time.perf_counter()
    compiler.decoder(OffsetCommitRequest, 8)
    compiler.encoder(OffsetCommitRequest, 8)
    return (time.perf_counter() - begin) * 1e3


def machine() -> str:
    """Return the machine of the measurement."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cpu = f"{len(names)} x {names[0]}" if names else platform.processor() or platform.machine()
    return f"{cpu}, {platform.system()} {platform.release()}"


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    print(f"{platform.python_implementation()} {platform.python_version()}, ", end="")
    print(", ".join(f"{name} {version_of(name)}" for name in ("construct", "msgspec", "kohort")))
    print(f"{machine()}; median of {rounds} rounds, microseconds for one message")
    print(f"{'':31}{'bytes':>7}{'decode':>22}{'encode':>31}")
    print(f"{'':38}{'construct':>11}{'compiled':>10}{'ratio':>7}", end="")
    print(f"{'construct':>14}{'compiled':>10}{'ratio':>7}")
    ratios = []
    for case in cases():
        times = measure(case, rounds)
        decode = times.construct_decode / times.compiled_decode
        encode = times.construct_encode / times.compiled_encode
        ratios += [decode, encode]
        print(f"{case.title:31}{len(case.message.encode(case.version)):7}", end="")
        print(f"{times.construct_decode:11.1f}{times.compiled_decode:10.2f}{decode:7.1f}", end="")
        print(f"{times.construct_encode:14.1f}{times.compiled_encode:10.2f}{encode:7.1f}")
    median_ms = statistics.median(compile_milliseconds() for _ in range(rounds))
    print(f"writing and compiling both directions of OffsetCommitRequest v8: {median_ms:.1f} ms, once")
    print(f"least ratio {min(ratios):.1f}, limit {RATIO_MIN}")
    return int(min(ratios) < RATIO_MIN)


if __name__ == "__main__":
    sys.exit(main())

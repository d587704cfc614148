"""Groups, members, sessions and producers by the thousand, and offsets that are no offsets."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from kohort.protocol.consumer import ConsumerProtocolAssignment, TopicPartitions
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupResponse
from kohort.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.records import build_batch
from kohort.protocol.schema import Message
from tests.attacks.answers import codes_in
from tests.attacks.commits import commit_of
from tests.attacks.members import Member, joining
from tests.attacks.pages import page
from tests.attacks.producing import PRODUCE_VERSION, create, now_ms
from tests.attacks.trial import StartTrial, Trial
from tests.attacks.wire import Line
from tests.interop.waiting import wait_until

MEGABYTE = 1_000_000
OFFSETS = (-(2**63), 2**63 - 1, -2, -1)
NIGHTLY = "KOHORT_TEST_NIGHTLY"
GROUPS = 10_000
PAGE_BYTES_MAX = 5 * MEGABYTE
PIPELINED = 200
REBALANCES = 33  # One more than are kept.
ASSIGNMENT_VERSION = 1
IDS = 8_000
PARTITIONS = 100
PRODUCERS = 200_000 if NIGHTLY in os.environ else 20_000
BYTES_PER_PRODUCER_MAX = 1_200
FIRST_LOOKS_MS = "kohort.lag.interval.ms=100"


def test_an_invalid_offset_does_not_change_the_lag_of_others(trial: StartTrial) -> None:
    with trial(FIRST_LOOKS_MS) as attacked:
        line = attacked.connect()
        for offset in OFFSETS:
            assert (
                len(codes_in(line.ask(commit_of(f"strange{offset}", offset), OffsetCommitResponse, 8))) == 1
            )
        time.sleep(0.5)  # Some looks at everybody's lag.
        for path in ("/metrics", "/api/v1/groups", "/api/v1/groups/innocent"):
            assert page(attacked.broker.http, path).status == 200, path
        for offset in OFFSETS:
            assert page(attacked.broker.http, f"/api/v1/groups/strange{offset}").status in {200, 404}
        described = json.loads(page(attacked.broker.http, "/api/v1/groups/innocent").text)
        assert described["offsets"][0]["lag"] >= 0
        assert 'group="innocent"' in page(attacked.broker.http, "/metrics").text


def test_a_commit_with_an_endless_retention_does_not_break_the_shard(trial: StartTrial) -> None:
    """Old versions say how long; now and that together are more than a time may be."""
    with trial() as attacked:
        for version in (2, 3, 4):
            for retention_ms in (2**63 - 1, 2**62, -(2**63)):
                topics = commit_of("kept").topics
                request = OffsetCommitRequest(group_id="kept", retention_time_ms=retention_ms, topics=topics)
                assert attacked.connect().ask_or_lose(request, OffsetCommitResponse, version)


def in_pipelines(line: Line, requests: Sequence[Message], kind: type[Message], version: int) -> None:
    """Ask all of these, some hundred at a time."""
    for start in range(0, len(requests), PIPELINED):
        part = requests[start : start + PIPELINED]
        for request in part:
            line.send(request, version)
        for _ in part:
            line.answer(kind)


def test_thousands_of_groups_make_no_page_too_large(trial: StartTrial) -> None:
    with trial() as attacked:
        in_pipelines(
            attacked.connect(),
            [commit_of(f"group-{number}-{'n' * 100}") for number in range(GROUPS)],
            OffsetCommitResponse,
            8,
        )
        with ThreadPoolExecutor(8) as pool:
            pages = list(pool.map(lambda _: page(attacked.broker.http, "/metrics"), range(8)))
        assert {each.status for each in pages} <= {200, 503}
        assert max(len(each.text) for each in pages) < PAGE_BYTES_MAX
        pages = [page(attacked.broker.http, "/api/v1/groups") for _ in range(3)]
        assert max(len(each.text) for each in pages) < PAGE_BYTES_MAX


def test_unused_member_ids_use_little_memory(trial: StartTrial) -> None:
    """Asked for in one group, and one in each of thousands; who means it gets in."""
    with trial() as attacked:
        line = attacked.connect()
        in_pipelines(line, [joining("crowded")] * PIPELINED, JoinGroupResponse, 5)
        before_bytes = attacked.broker.resident_bytes()
        in_pipelines(line, [joining("crowded")] * IDS, JoinGroupResponse, 5)
        in_pipelines(line, [joining(f"group-{number}") for number in range(IDS)], JoinGroupResponse, 5)
        grown_bytes = attacked.broker.resident_bytes() - before_bytes
        assert grown_bytes < 12 * MEGABYTE, f"{grown_bytes / 1e6:.0f} MB"
        assert Member(attacked.connect(), "crowded").join() == ErrorCode.NONE


def test_a_flood_of_fetch_sessions(trial: StartTrial) -> None:
    """Each remembers a thousand partitions."""
    with trial() as attacked:
        line = attacked.connect()
        create(line, "wide", 1_000)
        wanted = tuple(
            FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1) for number in range(1_000)
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_id=0,
            session_epoch=0,
            topics=(FetchTopic(topic="wide", partitions=wanted),),
            forgotten_topics_data=(),
        )
        lines = attacked.connections(4)
        for _ in range(40):
            for each in lines:
                each.send(request, 11)
            for each in lines:
                each.answer(FetchResponse)


def test_hundreds_of_parked_fetches_of_a_thousand_partitions(trial: StartTrial) -> None:
    """Four hundred parked fetches of a thousand partitions each."""
    with trial() as attacked:
        lines = attacked.connections(400)
        create(lines[0], "quiet", 1_000)
        wanted = tuple(
            FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1) for number in range(1_000)
        )
        request = FetchRequest(
            max_wait_ms=60_000,
            min_bytes=1,
            topics=(FetchTopic(topic="quiet", partitions=wanted),),
            forgotten_topics_data=(),
        )
        for line in lines:
            line.send(request, 11)
        time.sleep(1.0)


def test_thousands_of_producers_use_little_memory_each(trial: StartTrial) -> None:
    with trial() as attacked:
        line = attacked.connect()
        create(line, "wide", PARTITIONS)
        heartbeat(line)
        before_bytes = attacked.broker.resident_bytes()
        for first in range(0, PRODUCERS, PARTITIONS):
            data = tuple(
                PartitionProduceData(
                    index=index,
                    records=build_batch(
                        [(now_ms(), None, b"v", ())],
                        producer_id=first + index,
                        producer_epoch=0,
                        base_sequence=0,
                    ),
                )
                for index in range(PARTITIONS)
            )
            request = ProduceRequest(
                acks=-1, timeout_ms=9_000, topic_data=(TopicProduceData(name="wide", partition_data=data),)
            )
            line.ask(request, ProduceResponse, PRODUCE_VERSION)
        grown_bytes = attacked.broker.resident_bytes() - before_bytes
        assert grown_bytes < 20 * MEGABYTE + BYTES_PER_PRODUCER_MAX * PRODUCERS, f"{grown_bytes / 1e6:.0f} MB"


def heartbeat(line: Line) -> None:
    """Ask something that needs next to nothing."""
    line.ask(HeartbeatRequest(group_id="nobody", generation_id=1, member_id="nobody"), HeartbeatResponse)


def test_many_members_with_long_metadata(trial: StartTrial) -> None:
    """A leader's answer holds everybody's; nobody else's group may notice."""
    with trial() as attacked:
        lines = attacked.connections(300)
        for line in lines:
            line.send(joining("long", metadata=bytes(500_000)), 3)
        wait_until(lambda: group_is_formed(attacked), "the group formed, or its members were refused")


def test_rebalances_that_move_much_are_not_remembered_for_ever(trial: StartTrial) -> None:
    """Each hands out a thousand partitions of topics with longer names than any topic has."""
    with trial() as attacked:
        lines = attacked.connections(2)
        handed_out = [assignment_of(letter * 6_000, 1_000) for letter in "ab"]
        for group, line in enumerate(lines):
            member = Member(line, f"restless{group}")
            for number in range(REBALANCES):
                assert member.join() == ErrorCode.NONE
                assert member.sync(handed_out[number % 2]) == ErrorCode.NONE


def assignment_of(name: str, count: int) -> bytes:
    """Return an assignment of one partition of each of so many topics, whose names begin so."""
    topics = tuple(TopicPartitions(topic=f"{name}{number}", partitions=(0,)) for number in range(count))
    value = ConsumerProtocolAssignment(assigned_partitions=topics, user_data=None)
    return ASSIGNMENT_VERSION.to_bytes(2, "big") + value.encode(ASSIGNMENT_VERSION)


def group_is_formed(attacked: Trial) -> bool:
    """Return whether the group's rebalance is over, or there is no such group."""
    found = json.loads(page(attacked.broker.http, "/api/v1/groups").text)["groups"]
    return all(each["state"] != "PreparingRebalance" for each in found if each["group_id"] == "long")

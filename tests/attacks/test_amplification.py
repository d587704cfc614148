"""Small questions with large answers, pipelined, and the answers never read."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.messages.list_groups import ListGroupsRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kohort.protocol.messages.produce import ProduceResponse
from kohort.protocol.records import build_batch
from kohort.protocol.schema import Message
from tests.attacks.answers import codes_in
from tests.attacks.members import Member, joining
from tests.attacks.producing import PRODUCE_VERSION, create, now_ms, producing
from tests.attacks.trial import StartTrial, Trial
from tests.attacks.wire import Line, api_of, frame

PIPELINED = 1_000
CONNECTIONS = 4
GROUPS = 2_000
HELD_S = 2.0  # So long the answers stay unread.
PUSHED_WITHIN_S = 0.5
BROUGHT_WITHIN_S = 5.0
MEMBERS = 150
SMALL_BUFFER_BYTES = 4_096
TOPIC, GROUP = "wide", "wide"
PARTITIONS = 1_000
METADATA = "m" * 2_000
MEGABYTE = 1_000_000
BROKER_RESOURCE, TOPIC_RESOURCE = 4, 2


def never_read(attacked: Trial, request: Message, version: int | None = None) -> None:
    """Ask a thousand times on each of four connections, and read nothing for a while."""
    api = api_of(request)
    chosen = api.versions.highest if version is None else version
    data = b"".join(frame(request, chosen, number) for number in range(PIPELINED))
    lines = [attacked.connect(SMALL_BUFFER_BYTES) for _ in range(CONNECTIONS)]
    for line in lines:
        line.push(data, PUSHED_WITHIN_S)
    time.sleep(HELD_S)


def many_partitions(attacked: Trial) -> None:
    """Make a topic with 1,000 partitions."""
    create(attacked.connect(), TOPIC, PARTITIONS)


def many_offsets(attacked: Trial) -> None:
    """Let one group commit 1,000 offsets with metadata, 2 MB of them."""
    many_partitions(attacked)
    places = tuple(
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=index, committed_metadata=METADATA
        )
        for index in range(PARTITIONS)
    )
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=places)
    request = OffsetCommitRequest(group_id=GROUP, topics=(topic,))
    assert codes_in(attacked.connect().ask(request, OffsetCommitResponse, 8)) == {ErrorCode.NONE}


def a_fat_group(attacked: Trial) -> None:
    """Let one group have a member with seven megabytes of metadata."""
    member = Member(attacked.connect(), GROUP, bytes(7 * MEGABYTE), rebalance_ms=60_000)
    assert member.join() == ErrorCode.NONE
    assert member.sync(bytes(MEGABYTE // 2)) == ErrorCode.NONE


def many_groups(attacked: Trial) -> None:
    """Let 2,000 groups with long names be."""
    place = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="innocent", partitions=(place,))
    line = attacked.connect()
    for number in range(GROUPS):
        line.send(OffsetCommitRequest(group_id=f"{number}-{'g' * 200}", topics=(topic,)), 8)
        if number % 100 == 99:
            for _ in range(100):
                assert codes_in(line.answer(OffsetCommitResponse)) == {ErrorCode.NONE}


def records_to_fetch(attacked: Trial) -> None:
    """Put 16 MB of records into a topic."""
    line = attacked.connect()
    create(line, TOPIC)
    batch = build_batch([(now_ms(), None, bytes(MEGABYTE), ())])
    for _ in range(16):
        assert codes_in(line.ask(producing(TOPIC, batch), ProduceResponse, PRODUCE_VERSION)) == {0}


def nothing(attacked: Trial) -> None:
    """Need nothing."""


OF_ALL = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GROUP, topics=None),))
STABLE = OffsetFetchRequest(
    groups=(OffsetFetchRequestGroup(group_id=GROUP, topics=None),), require_stable=True
)
OF_MANY = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GROUP, topics=None),) * 50)
EVERYTHING = FetchRequest(
    max_wait_ms=0,
    min_bytes=1,
    topics=(
        FetchTopic(
            topic=TOPIC,
            partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 30),),
        ),
    ),
    forgotten_topics_data=(),
)
CONFIGS = DescribeConfigsRequest(
    resources=tuple(
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name in ((BROKER_RESOURCE, "1"), (TOPIC_RESOURCE, "innocent"))
    ),
    include_synonyms=True,
    include_documentation=True,
)
NAMED_OFTEN = MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),) * 200)
ATTACKS: dict[str, tuple[Callable[[Trial], None], Message, int | None]] = {
    "offsets": (many_offsets, OF_ALL, 8),
    "stable offsets": (many_offsets, STABLE, 8),
    "one group, many times": (many_offsets, OF_MANY, 8),
    "metadata": (many_partitions, MetadataRequest(topics=None), None),
    "metadata of one topic, many times": (many_partitions, NAMED_OFTEN, 12),
    "log dirs": (many_partitions, DescribeLogDirsRequest(topics=None), None),
    "groups with metadata": (a_fat_group, DescribeGroupsRequest(groups=(GROUP,)), None),
    "one group with metadata, many times": (a_fat_group, DescribeGroupsRequest(groups=(GROUP,) * 50), None),
    "groups": (many_groups, ListGroupsRequest(states_filter=(), types_filter=()), None),
    "records": (records_to_fetch, EVERYTHING, 11),
    "configs": (nothing, CONFIGS, None),
    "api versions": (
        nothing,
        ApiVersionsRequest(client_software_name="a", client_software_version="1"),
        None,
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_unread_answers_stay_within_the_memory_limit(trial: StartTrial, name: str) -> None:
    prepare, request, version = ATTACKS[name]
    with trial() as attacked:
        prepare(attacked)
        never_read(attacked, request, version)


def test_answers_that_are_read_slowly(trial: StartTrial) -> None:
    """Now and then a little is taken, so that nobody can say that the reader is dead."""
    with trial() as attacked:
        many_offsets(attacked)
        data = b"".join(frame(OF_ALL, 8, number) for number in range(PIPELINED))
        lines = [attacked.connect(SMALL_BUFFER_BYTES) for _ in range(CONNECTIONS)]
        for line in lines:
            line.push(data, PUSHED_WITHIN_S)
        for _ in range(30):
            for line in lines:
                sip(line)
            time.sleep(0.1)


def sip(line: Line) -> None:
    """Take a kilobyte if it is there."""
    line.socket.settimeout(0.01)
    try:
        line.socket.recv(1_024)
    except (TimeoutError, ConnectionError):
        return


def test_one_large_answer_for_each_of_a_thousand_connections(trial: StartTrial) -> None:
    """One question each: what bounds a connection does not bound them all."""
    with trial() as attacked:
        many_offsets(attacked)
        for line in [attacked.connect(SMALL_BUFFER_BYTES) for _ in range(300)]:
            line.send(OF_ALL, 8)
        time.sleep(HELD_S)


def test_many_connections_describe_a_group_of_megabytes(trial: StartTrial) -> None:
    """Whoever asks while a flush is under way is answered after it: all of them in one round."""
    with trial() as attacked:
        a_fat_group(attacked)
        asked = b"".join(frame(DescribeGroupsRequest(groups=(GROUP,)), 5, number) for number in range(20))
        for line in [attacked.connect(SMALL_BUFFER_BYTES) for _ in range(MEMBERS)]:
            line.push(asked, PUSHED_WITHIN_S)
        time.sleep(HELD_S)


@pytest.mark.parametrize("groups", [1, MEMBERS], ids=["one group", "a group each"])
def test_members_with_megabytes_of_metadata(trial: StartTrial, groups: int) -> None:
    """What members bring is kept for as long as they are members, and a leader gets all of it."""
    with trial() as attacked, ThreadPoolExecutor(MEMBERS) as pool:
        joins = [
            frame(joining(f"fat{number % groups}", metadata=bytes(7 * MEGABYTE)), 3)
            for number in range(MEMBERS)
        ]
        lines = attacked.connections(MEMBERS)
        list(pool.map(lambda line, data: line.push(data, BROUGHT_WITHIN_S), lines, joins))
        time.sleep(HELD_S)

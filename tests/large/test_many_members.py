"""A group of 1,000 members, and many groups of 10: they form, rebalance, and go on after a kill.

KOHORT_TEST_LARGE=1 (`make large`) plays 1,000 groups of 10, on 10,000 connections.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from tests.interop.broker_process import BrokerProcess
from tests.large.crowd import TOPIC, Caller, Crowd

LARGE = os.environ.get("KOHORT_TEST_LARGE") == "1"
GROUPS_OF_TEN = 1_000 if LARGE else 60
STEP_S_MAX = 60.0 if LARGE else 20.0
SETTINGS = (
    "group.initial.rebalance.delay.ms=1000",
    "offsets.topic.num.partitions=8",
    "group.min.session.timeout.ms=1000",
)
FILES_SPARE = 500

Step = Callable[[], object]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path, *SETTINGS)
    process.start()
    yield process
    process.kill()


@pytest.mark.requirement("R14", "R20")
@pytest.mark.parametrize("groups, members", [(1, 1_000), (GROUPS_OF_TEN, 10)])
def test_groups_form_rebalance_and_go_on_after_a_kill(
    broker: BrokerProcess, groups: int, members: int, record_property: Callable[[str, object], None]
) -> None:
    open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if groups * members + FILES_SPARE > open_files:
        pytest.skip(f"{groups * members} connections need more than {open_files} open files")
    crowd = Crowd(groups, members)

    def timed(name: str, step: Step) -> None:
        began_s = time.perf_counter()
        step()
        passed_s = time.perf_counter() - began_s
        record_property(name, round(passed_s, 3))
        assert passed_s < STEP_S_MAX, name

    prepare(broker, crowd, partitions=members)
    timed("connect", lambda: crowd.connect(broker.address))
    timed("form", crowd.form)
    assert_whole(broker, crowd, generation_id=1)
    timed("rebalance", crowd.rebalance)
    assert_whole(broker, crowd, generation_id=2)
    assert set(crowd.commits()) == {ErrorCode.NONE}
    timed("restart", lambda: broker.restart(signal.SIGKILL))
    prepare(broker, crowd, partitions=members)
    timed("reconnect", lambda: crowd.connect(broker.address))
    assert_whole(broker, crowd, generation_id=2)
    assert_offsets(broker, crowd, partitions=members)
    crowd.close()


def prepare(broker: BrokerProcess, crowd: Crowd, partitions: int) -> None:
    """Create the topic, and wait until every group's coordinator serves."""
    control = Caller(broker.address)
    topic = CreatableTopic(
        name=TOPIC, num_partitions=partitions, replication_factor=1, assignments=(), configs=()
    )
    control.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    control.ask(FindCoordinatorRequest(coordinator_keys=tuple(crowd.groups)), FindCoordinatorResponse)
    control.close()


def assert_whole(broker: BrokerProcess, crowd: Crowd, generation_id: int) -> None:
    """Every group is stable with all of its members, each of which owns one partition and is heard."""
    assert {each.generation_id for each in crowd.members} == {generation_id}
    assert set(crowd.heartbeats()) == {ErrorCode.NONE}
    control = Caller(broker.address)
    described = control.ask(DescribeGroupsRequest(groups=tuple(crowd.groups)), DescribeGroupsResponse)
    control.close()
    assert {each.group_state for each in described.groups} == {"Stable"}
    expected = Counter(each.group_id for each in crowd.members)
    assert {each.group_id: len(each.members) for each in described.groups} == expected
    owned = {(each.group_id, index) for each in crowd.members for index in each.share}
    assert len(owned) == len(crowd.members) == sum(len(each.share) for each in crowd.members)


def assert_offsets(broker: BrokerProcess, crowd: Crowd, partitions: int) -> None:
    """Every offset that was committed is still there."""
    control = Caller(broker.address)
    asked = tuple(OffsetFetchRequestGroup(group_id=each, topics=None) for each in crowd.groups)
    answer = control.ask(OffsetFetchRequest(groups=asked), OffsetFetchResponse, 9)
    control.close()
    for group in answer.groups:
        kept = {
            each.partition_index: each.committed_offset for topic in group.topics for each in topic.partitions
        }
        assert kept == {index: 1_000 + index for index in range(partitions)}, group.group_id

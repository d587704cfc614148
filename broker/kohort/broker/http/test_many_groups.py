"""Pages of a broker with very many groups and partitions: how large they are, and what they cost the loop."""

import gc
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest
import trio

from kohort.broker.group.classic.group import ClassicGroup
from kohort.broker.group.group import AnyGroup
from kohort.broker.http import pages
from kohort.broker.http.groups import Json, list_groups
from kohort.broker.http.test_http import FakePartition, FakeView, Site, a_group
from kohort.broker.http.view import PageLimits, View
from kohort.broker.metadata import PartitionState, TopicState
from kohort.protocol.offsets_topic import OffsetCommitValue

GROUPS = 20_000
STEP_SECONDS_MAX = 0.05


@pytest.fixture
async def site(nursery: trio.Nursery) -> AsyncIterator[Site]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        view = FakeView()
        nursery.start_soon(pages.serve, view, sock)
        yield Site(view, sock.getsockname()[1])


def a_group_with_offsets(number: int, partitions: int = 1) -> AnyGroup:
    group = ClassicGroup(f"group-{number:05}")
    value = OffsetCommitValue(offset=4, metadata="", commit_timestamp=5, topic_id=UUID(int=0))
    group.offsets = {"flights": dict.fromkeys(range(partitions), value)}
    return group


def samples(page: str, name: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith((name + "{", name + " "))]


async def test_beyond_a_number_of_groups_totals_and_what_was_left_out_are_told(site: Site) -> None:
    site.view.limits = PageLimits(groups_max=10)
    site.view.group_list = [a_group_with_offsets(each) for each in range(30)] + [a_group()]
    page = (await site.get("/metrics")).body.decode()
    shown = samples(page, "kafka_consumergroup_members")
    assert len(shown) == 10
    assert any("billing/eu" in line for line in shown), "a group with members comes first"
    assert len(samples(page, "kafka_consumergroup_lag")) == 10
    assert 'kohort_metrics_left_out{of="groups"} 21.0' in page
    assert "kafka_coordinator_group_groupmetadatamanager_numgroups 31.0" in page
    assert "kafka_coordinator_group_groupmetadatamanager_numoffsets 31.0" in page


async def test_a_group_of_too_many_partitions_is_left_out_as_a_whole(site: Site) -> None:
    site.view.limits = PageLimits(partitions_max=10)
    site.view.group_list = [
        a_group_with_offsets(1, 8),
        a_group_with_offsets(2, 3),
        a_group_with_offsets(3, 2),
    ]
    page = (await site.get("/metrics")).body.decode()
    assert len(samples(page, "kafka_consumergroup_current_offset")) == 10
    assert "group-00002" not in page
    assert 'kohort_metrics_left_out{of="groups"} 1.0' in page


async def test_beyond_a_number_of_partitions_the_others_are_counted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.view.limits = PageLimits(partitions_max=10)
    site.view.held = [FakePartition("flights", each) for each in range(25)]
    states = tuple(PartitionState(each, 1, 0, (1,), (1,)) for each in range(25))
    monkeypatch.setattr(site.view, "topics", lambda: [TopicState("flights", UUID(int=1), states)])
    page = (await site.get("/metrics")).body.decode()
    assert len(samples(page, "kohort_log_end_offset")) == 10
    assert len(samples(page, "kafka_topic_partition_leader")) == 10
    assert "kohort_partitions 25.0" in page
    assert 'kohort_metrics_left_out{of="logs"} 15.0' in page
    assert 'kohort_metrics_left_out{of="partitions"} 15.0' in page


async def test_nothing_is_left_out_of_a_usual_broker(site: Site) -> None:
    page = (await site.get("/metrics")).body.decode()
    assert samples(page, "kohort_metrics_left_out") == [
        'kohort_metrics_left_out{of="groups"} 0.0',
        'kohort_metrics_left_out{of="logs"} 0.0',
        'kohort_metrics_left_out{of="partitions"} 0.0',
    ]


@pytest.mark.parametrize(
    "path", ["/metrics", "/api/v1/groups", "/health/ready", "/api/v1/groups/group-00000"]
)
async def test_no_page_holds_the_loop(site: Site, path: str) -> None:
    site.view.group_list = [a_group_with_offsets(each) for each in range(1, GROUPS)]
    site.view.group_list.insert(0, a_group_with_offsets(0, 20_000))
    site.view.held = [FakePartition("flights", each) for each in range(20_000)]
    await site.get("/metrics")  # What is imported at the first request is no page's.
    await trio.sleep(1.1)
    gc.collect()
    gc.freeze()  # What else this process has is no part of a broker.
    with longest_step() as seconds:
        answer = await site.get(path)
    gc.unfreeze()
    assert answer.status == 200
    assert seconds() < STEP_SECONDS_MAX
    assert len(answer.body) < 8_000_000


class _Steps(trio.abc.Instrument):
    """Notes the longest that a task has held the loop, by its thread's time: others' load is not in it."""

    def __init__(self) -> None:
        self.longest_seconds = 0.0
        self._began = time.thread_time()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.longest_seconds = max(self.longest_seconds, time.thread_time() - self._began)


@contextmanager
def longest_step() -> Iterator[Callable[[], float]]:
    """Measure within the block; the function that it gives returns the longest step in seconds."""
    steps = _Steps()
    trio.lowlevel.add_instrument(steps)
    try:
        yield lambda: steps.longest_seconds
    finally:
        trio.lowlevel.remove_instrument(steps)


async def test_many_groups_are_listed_once_for_all_who_ask_within_a_second(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    async def counted(view: View) -> Json:
        made.append(1)
        return await list_groups(view)

    monkeypatch.setattr(pages, "list_groups", counted)
    site.view.group_list = [a_group_with_offsets(each) for each in range(pages.GROUPS_MAX + 1)]
    lengths: list[int] = []

    async def look() -> None:
        lengths.append(len((await site.get("/api/v1/groups")).json["groups"]))

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(look)
    assert lengths == [pages.GROUPS_MAX + 1] * 8
    assert len(made) < 8
    del site.view.group_list[1:]  # Few are listed as they are.
    made.clear()
    await look()
    await look()
    assert lengths[-2:] == [1, 1]
    assert len(made) == 2

"""Group requests on one process and on several: requests a second, and the CPU time of each in the servers.

    python benchmarks/workers.py [--workers 1,2] [--seconds 5] [--repeats 3] [--connections 16] [--depth 16]

Two kinds of work, each on groups that are spread over the workers: commits of groups without members, several
under way on each connection, and groups that a member joins, syncs, commits to and leaves, one request after
The load comes from `--load` processes on this machine, and uses its own share of
the cores: if all cores are busy, the CPU time of a request shows how much more they could do, and the
rates show it only if there are enough cores for both. Several processes that share cores with their load
have smaller rounds, which cost more for each request: `apart` are as many independent brokers,
each with its own folder, under the same load. No worker could do more than those. The table is
Markdown.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.parts import raw_client
from benchmarks.parts.raw_client import (
    Address,
    Connection,
    Load,
    commit_frame,
    coordinator,
    is_committed,
    requests_per_second,
    until,
)

from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
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
from tests.workers.workers_process import WorkersProcess

TOPIC = "air"
PARTITIONS = 8
WARM_UP_SECONDS = 1.0
TICKS = os.sysconf("SC_CLK_TCK")
SETTINGS = ("offsets.topic.num.partitions=50",)
raw_client.VERSIONS |= {"JoinGroup": 3, "SyncGroup": 3, "LeaveGroup": 3}
REQUESTS_OF_A_GROUP = 4

Work = Callable[[list[tuple[str, Address]], float, int], float]
"""Returns how many requests a second the groups at these addresses got answered, for so many seconds."""


class Setup(NamedTuple):
    """So many processes: workers of one broker, or brokers apart."""

    processes: int
    is_apart: bool

    def __str__(self) -> str:
        return f"{self.processes} apart" if self.is_apart else str(self.processes)


class Figure(NamedTuple):
    """Requests a second, the CPU time of each in all servers, and the share of the busiest server."""

    per_second: float
    cpu_us: float
    busiest: float


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16, help="to each worker, a group on each")
    parser.add_argument("--depth", type=int, default=16, help="commits under way on each connection")
    parser.add_argument("--load", type=int, default=2, help="processes that ask")
    options = parser.parse_args()
    kinds: dict[str, Work] = {"commits": commit, "groups formed": form}
    found: dict[tuple[str, Setup], list[Figure]] = {}
    numbers = [int(each) for each in options.workers.split(",")]
    setups = [
        Setup(each, is_apart=apart) for each in numbers for apart in (False, True) if each > 1 or not apart
    ]
    for repeat in range(options.repeats):
        for setup in setups:
            with serving_as(setup) as processes:
                for name, work in kinds.items():
                    figure = measured(processes, work, setup, options)
                    found.setdefault((name, setup), []).append(figure)
                    print(f"{repeat} {name}, workers {setup}: {figure}", file=sys.stderr)
    print("\n".join(table(found, list(kinds), setups)))


@contextmanager
def serving_as(setup: Setup) -> Iterator[list[WorkersProcess]]:
    """Give a broker of workers, or brokers apart."""
    with ExitStack() as stack:
        if setup.is_apart:
            yield [stack.enter_context(serving(1)) for _ in range(setup.processes)]
        else:
            yield [stack.enter_context(serving(setup.processes))]


@contextmanager
def serving(workers: int) -> Iterator[WorkersProcess]:
    """Run a broker of so many processes, with an empty folder."""
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as folder:
        process = WorkersProcess(Path(folder), workers, *SETTINGS)
        process.options += ("--log-level", "warning")
        process.start()
        try:
            topic = CreatableTopic(
                name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=(), configs=()
            )
            connection = Connection(process.address)
            answer = connection.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
            connection.close()
            assert not answer.topics[0].error_code, answer
            yield process
        finally:
            process.stop()


def measured(
    processes: list[WorkersProcess], work: Work, setup: Setup, options: argparse.Namespace
) -> Figure:
    """Return the result of one run, once it is warm."""
    groups: list[tuple[str, Address]] = []
    for process in processes:
        groups += spread(process.address, options.connections, setup.processes // len(processes))
    asked(work, groups, WARM_UP_SECONDS, options)
    before, began = cpu_seconds_of(processes), time.monotonic()
    per_second = asked(work, groups, options.seconds, options)
    seconds = time.monotonic() - began
    used = {pid: now - before.get(pid, 0.0) for pid, now in cpu_seconds_of(processes).items()}
    total = sum(used.values())
    return Figure(per_second, total / (per_second * seconds) * 1e6, max(used.values()) / total)


def cpu_seconds_of(processes: list[WorkersProcess]) -> dict[int, float]:
    """Return what all processes of these brokers have used of the CPU, each by its id."""
    return {pid: used for each in processes for pid, used in cpu_seconds(each.pid).items()}


def spread(address: Address, each_has: int, workers: int) -> list[tuple[str, Address]]:
    """Return groups with their coordinators, so many at each of the workers."""
    by_place: dict[Address, list[str]] = {}
    for number in count():
        if len(by_place) == workers and all(len(each) >= each_has for each in by_place.values()):
            break
        group = f"group-{number}"
        until(lambda each=group: coordinator(address, each) is not None)  # type: ignore[misc]
        found = coordinator(address, group)
        assert found is not None
        by_place.setdefault(found[1], []).append(group)
    return [(group, place) for place, groups in by_place.items() for group in groups[:each_has]]


def asked(
    work: Work, groups: list[tuple[str, Address]], seconds: float, options: argparse.Namespace
) -> float:
    """Return what all processes of the load have asked a second, together."""
    shares = [groups[number :: options.load] for number in range(options.load)]
    with multiprocessing.get_context("fork").Pool(options.load) as pool:
        return sum(pool.starmap(work, [(share, seconds, options.depth) for share in shares if share]))


def commit(groups: list[tuple[str, Address]], seconds: float, depth: int) -> float:
    """Commit for groups without members."""
    return requests_per_second(
        [Load(place, commit_frame(group, TOPIC, 1), depth, is_committed) for group, place in groups], seconds
    )


def form(groups: list[tuple[str, Address]], seconds: float, depth: int) -> float:
    """Form groups of one member, one after the other on connections that take turns."""
    connections = [(group, Connection(place)) for group, place in groups]
    made, began = 0, time.monotonic()
    numbers = count()
    while time.monotonic() - began < seconds:
        made += form_once(connections, next(numbers))
    for _, connection in connections:
        connection.close()
    return made * REQUESTS_OF_A_GROUP / (time.monotonic() - began)


def form_once(connections: list[tuple[str, Connection]], number: int) -> int:
    """Have a member join, sync, commit and leave at each group, all groups side by side; return how many."""
    for group, connection in connections:
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        connection.send(
            raw_client.frame_of(
                JoinGroupRequest(
                    group_id=group,
                    session_timeout_ms=30_000,
                    rebalance_timeout_ms=30_000,
                    member_id="",
                    protocol_type="consumer",
                    protocols=(protocol,),
                )
            )
        )
    members = []
    for group, connection in connections:
        joined = raw_client.decoded(connection.receive(), JoinGroupResponse)
        assert not joined.error_code, joined
        members.append((group, connection, joined.member_id, joined.generation_id))
    for group, connection, member, generation in members:
        given = SyncGroupRequestAssignment(member_id=member, assignment=b"")
        connection.send(
            raw_client.frame_of(
                SyncGroupRequest(
                    group_id=group, generation_id=generation, member_id=member, assignments=(given,)
                )
            )
        )
    for _, connection, _, _ in members:
        synced = raw_client.decoded(connection.receive(), SyncGroupResponse)
        assert not synced.error_code, synced
    for group, connection, member, generation in members:
        place = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=number, committed_metadata=""
        )
        connection.send(
            raw_client.frame_of(
                OffsetCommitRequest(
                    group_id=group,
                    generation_id_or_member_epoch=generation,
                    member_id=member,
                    topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=(place,)),),
                )
            )
        )
    for _, connection, _, _ in members:
        committed = raw_client.decoded(connection.receive(), OffsetCommitResponse)
        assert not committed.topics[0].partitions[0].error_code, committed
    for group, connection, member, _ in members:
        connection.send(
            raw_client.frame_of(
                LeaveGroupRequest(group_id=group, member_id="", members=(MemberIdentity(member_id=member),))
            )
        )
    for _, connection, _, _ in members:
        left = raw_client.decoded(connection.receive(), LeaveGroupResponse)
        assert not left.error_code, left
    return len(members)


def cpu_seconds(pid: int) -> dict[int, float]:
    """Return the CPU time of a process and its children, each by its id."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")  # The children of each of its threads.
    children = " ".join(each.read_text() for each in lists).split()
    return {each: _cpu_seconds(each) for each in (pid, *map(int, children))}


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def table(
    found: dict[tuple[str, Setup], list[Figure]], kinds: list[str], setups: list[Setup]
) -> Iterator[str]:
    """Yield the table's lines: medians, and what as many cores could do."""
    yield "| work | workers | requests/s | CPU us a request | busiest process | requests/s of N busy cores |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name in kinds:
        for setup in setups:
            figures = found[name, setup]
            rate, cpu_us, busiest = (statistics.median(each[place] for each in figures) for place in range(3))
            could = setup.processes / cpu_us * 1e6
            yield f"| {name} | {setup} | {rate:,.0f} | {cpu_us:,.1f} | {busiest:.0%} | {could:,.0f} |"


if __name__ == "__main__":
    main()

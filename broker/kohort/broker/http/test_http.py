"""The pages as a client sees them: a real socket, over a view of a made-up broker."""

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
import trio
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from kohort.broker.authorization.acls import Binding
from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.explain.events import RebalanceReport
from kohort.broker.explain.history import GroupRebalances, HistoryRoom
from kohort.broker.explain.rebalance import Rebalance
from kohort.broker.group.classic.group import ClassicGroup, Member
from kohort.broker.group.events import Cause, CauseKind
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.rebalance_facts import Outcome
from kohort.broker.group.state import GroupState
from kohort.broker.http import pages
from kohort.broker.http.asking import Ask, NotAnswered
from kohort.broker.http.families import FAMILIES
from kohort.broker.http.page_parts import T
from kohort.broker.http.replica_facts import ReplicaFacts
from kohort.broker.http.view import Counters, PageLimits
from kohort.broker.http.view_facts import PartitionFacts
from kohort.broker.lag import PartitionLag, Verdict
from kohort.broker.lag.ends import Ends
from kohort.broker.metadata import BrokerState, PartitionState, TopicState
from kohort.broker.partitions.counters import PartitionCounters
from kohort.broker.quotas.meter import Use
from kohort.broker.telemetry.taking import ClientMetrics
from kohort.broker.transport.counters import TransportCounters
from kohort.protocol.messages.join_group import JoinGroupRequestProtocol
from kohort.protocol.offsets_topic import OffsetCommitValue
from kohort.protocol.records import iterate_batches, iterate_records, read_header
from kohort.protocol.schema import Message


@dataclass
class FakeLog:
    log_start_offset: int = 3
    log_end_offset: int = 10
    size_bytes: int = 700
    batches: bytes = b""

    def read(self, offset: int, max_bytes: int, end_offset: int) -> "FakeSlice":
        found = (batch for batch in iterate_batches(self.batches) if read_header(batch).next_offset > offset)
        return FakeSlice(b"".join(found))

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int, int] | None:
        for batch in iterate_batches(self.batches):
            for record in iterate_records(batch):
                if record.timestamp >= timestamp_ms:
                    return record.offset, record.timestamp, 0
        return None


@dataclass
class FakeSlice:
    content: bytes

    def read(self) -> bytes:
        return self.content


@dataclass
class FakePartition:
    topic: str
    index: int
    opened: bool = True
    offline: Exception | None = None
    high_watermark: int = 9
    log: FakeLog = field(default_factory=FakeLog)


@dataclass
class FakeTask:
    name: str = "log cleaner"
    restarts: int = 2
    wrong: str | None = None

    def reason(self) -> str | None:
        return self.wrong


@dataclass
class FakeDisk:
    free_bytes: int | None = 7_000
    total_bytes: int | None = 9_000


@dataclass
class FakeLoop:
    seconds_max: float = 0.25


@dataclass
class FakeHealth:
    tasks: list[FakeTask] = field(default_factory=lambda: [FakeTask()])
    disk: FakeDisk = field(default_factory=FakeDisk)
    loop_lag: FakeLoop = field(default_factory=FakeLoop)
    wrong: list[str] = field(default_factory=list)

    def reasons(self) -> list[str]:
        return list(self.wrong)


@dataclass
class FakeView:
    counters: Counters = field(
        default_factory=lambda: Counters(TransportCounters(), PartitionCounters(), GroupCounters())
    )
    cluster_id: str = "the-cluster"
    node_id: int = 1
    taken: ClientMetrics | None = None
    health: FakeHealth = field(default_factory=FakeHealth)
    shards_failed: list[int] = field(default_factory=list)
    limits: PageLimits = field(default_factory=PageLimits)
    shards_loading: list[int] = field(default_factory=list)
    held: list[FakePartition] = field(default_factory=lambda: [FakePartition("flights", 0)])
    group_list: list[AnyGroup] = field(default_factory=list)
    journals: dict[str, GroupRebalances] = field(default_factory=lambda: {"billing/eu": its_rebalances()})
    messages_shown: bool = True
    registry_urls: str | None = None
    bindings: list[Binding] = field(default_factory=list)
    looks: list[tuple[str, str, str]] = field(default_factory=list)
    quotas: list[Use] = field(default_factory=list)
    answers: dict[str, Message] = field(default_factory=dict)
    broker_list: list[BrokerState] = field(default_factory=lambda: [BrokerState(1, "127.0.0.1", 9092)])

    def connections(self) -> int:
        return 4

    def fetch_sessions(self) -> int:
        return 6

    def fetch_sessions_evicted(self) -> int:
        return 1

    def loading(self) -> list[int]:
        return self.shards_loading

    def failed(self) -> list[int]:
        return self.shards_failed

    def partitions(self) -> list[PartitionFacts]:
        return list(self.held)

    def partition(self, topic: str, index: int) -> PartitionFacts | None:
        return next((each for each in self.held if (each.topic, each.index) == (topic, index)), None)

    def groups(self) -> Iterator[AnyGroup]:
        return iter(self.group_list)

    def group(self, group_id: str) -> AnyGroup | None:
        return next((each for each in self.group_list if each.group_id == group_id), None)

    def rebalances(self, group_id: str) -> GroupRebalances:
        return self.journals.get(group_id, GroupRebalances(HistoryRoom()))

    def is_loading(self, group_id: str) -> bool:
        return group_id.startswith("loading")

    def telemetry(self) -> ClientMetrics | None:
        return self.taken

    def share_group(self, group_id: str) -> None:
        return None

    def shards(self) -> dict[str, int]:
        return {"active": 2, "loading": len(self.shards_loading), "failed": 0}

    def topics(self) -> list[TopicState]:
        states = (PartitionState(0, 1, 0, (1,), (1,)), PartitionState(1, 1, 0, (1, 2), (1,)))
        return [TopicState("flights", UUID(int=1), states)]

    def replicas(self) -> ReplicaFacts:
        return ReplicaFacts(leaders=2, replicas=2, under_replicated=1)

    def brokers(self) -> int:
        return 1

    def controller(self) -> int:
        return 1

    def others(self) -> None:
        return None

    def catching_up(self) -> list[str]:
        return []

    def acl_bindings(self) -> list[Binding]:
        return self.bindings

    def broker_states(self) -> list[BrokerState]:
        return self.broker_list

    def topic(self, name: str) -> TopicState | None:
        return next((each for each in self.topics() if each.name == name), None)

    def topic_settings(self, name: str) -> list[tuple[str, str | None, bool]]:
        return [("retention.ms", "5", True), ("segment.ms", "7", False)]

    def quota_uses(self) -> list[Use]:
        return self.quotas

    def part(self, name: str, make: Callable[[], T]) -> T:
        return make()

    def asks(self) -> None:
        return None

    def answers_agents(self) -> bool:
        return False

    def shows_messages(self) -> bool:
        return self.messages_shown

    def schema_registry(self) -> str | None:
        return self.registry_urls

    def looked_at(self, topic: str, user: str, host: str) -> None:
        self.looks.append((topic, user, host))

    async def open_partition(self, topic: str, index: int) -> PartitionFacts | None:
        found = self.partition(topic, index)
        return None if found is None or found.offline is not None else found

    def reads(self) -> Ask:
        return self.ask

    async def ask(self, api: str, version: int, message: Message) -> Message:
        if api not in self.answers:
            raise NotAnswered(f"{api} was not answered")
        return self.answers[api]

    async def ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Ends]:
        return {place: Ends(0, 9, 9) for place in places}

    def behind(self, group: AnyGroup) -> Iterator[int | None]:
        return (9 - value.offset for offsets in group.offsets.values() for value in offsets.values())

    async def lag(self, groups: Iterable[AnyGroup]) -> list[PartitionLag]:
        rows: list[PartitionLag] = []
        for group in groups:
            for topic, offsets in group.offsets.items():
                for (index, value), verdict in zip(
                    offsets.items(), cycle((Verdict.WARN, Verdict.OK)), strict=False
                ):
                    lag = 9 - value.offset
                    rows.append(
                        PartitionLag(group.group_id, topic, index, value.offset, 9, lag, 2.5, verdict, 1.0)
                    )
                    if not len(rows) % 50:
                        await trio.lowlevel.checkpoint()
        return rows


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Site:
    """A server and the view behind it."""

    def __init__(self, view: FakeView, port: int) -> None:
        self.view = view
        self.port = port

    async def get(self, path: str, accept: str = "", method: str = "GET") -> Answer:
        return await trio.to_thread.run_sync(partial(self._get, path, accept, method))

    def _get(self, path: str, accept: str, method: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path, headers={"accept": accept} if accept else {})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)


@pytest.fixture
async def site(nursery: trio.Nursery) -> AsyncIterator[Site]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        view = FakeView()
        nursery.start_soon(pages.serve, view, sock)
        yield Site(view, sock.getsockname()[1])


def a_group() -> ClassicGroup:
    group = ClassicGroup("billing/eu")
    group.state = GroupState.PREPARING_REBALANCE
    group.protocol_type = "consumer"
    group.generation_id = 7
    member = Member(
        member_id="c-1",
        instance_id=None,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=300_000,
        session_timeout_ms=45_000,
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
    )
    group.members["c-1"] = member
    group.offsets = {
        "flights": {0: OffsetCommitValue(offset=4, metadata="", commit_timestamp=5, topic_id=UUID(int=0))}
    }
    return group


def its_rebalances() -> GroupRebalances:
    rebalances = GroupRebalances(HistoryRoom())
    cause = Cause(CauseKind.MEMBER_JOINED, 1_000, "c-2", "c")
    rebalances.ongoing = Rebalance(cause, 1_000, {"c-1": "c"}, is_initial=False)
    return rebalances


def a_report() -> RebalanceReport:
    return RebalanceReport(
        outcome=Outcome.STABLE,
        generation_id=2,
        cause=Cause(CauseKind.MEMBER_JOINED, 1_000),
        further_causes=(),
        started_ms=1_000,
        join_ms=150,
        sync_ms=50,
        still_ms=200,
        members=2,
        leader="a",
        protocol_name="range",
        waited_for=(),
        removed_member_ids=(),
        moves=(),
    )


async def test_live_says_that_the_loop_runs(site: Site) -> None:
    answer = await site.get("/health/live")
    assert (answer.status, answer.json) == (200, {"status": "live"})


async def test_ready_is_200_when_everything_can_be_asked(site: Site) -> None:
    answer = await site.get("/health/ready")
    assert (answer.status, answer.json) == (200, {"status": "ready", "reasons": []})


async def test_ready_is_503_with_its_reasons_while_a_shard_loads_or_a_log_is_offline(site: Site) -> None:
    site.view.shards_loading = [3]
    site.view.held.append(FakePartition("trips", 1, offline=OSError("no space left")))
    answer = await site.get("/health/ready")
    assert answer.status == 503
    assert answer.json["reasons"] == [
        "__consumer_offsets-3: its groups are being loaded",
        "trips-1: offline: no space left",
    ]


async def test_ready_is_503_where_a_part_is_down_or_a_shard_was_given_up(site: Site) -> None:
    site.view.health.wrong = ["the disk is full"]
    site.view.shards_loading, site.view.shards_failed = [3, 4], [4]
    answer = await site.get("/health/ready")
    assert answer.status == 503
    assert answer.json["reasons"] == [
        "the disk is full",
        "__consumer_offsets-3: its groups are being loaded",
        "__consumer_offsets-4: its groups could not be loaded",
    ]
    site.view.health.tasks = [FakeTask(wrong="down")]
    lines = (await site.get("/metrics")).body.decode().splitlines()
    for line in (
        "kohort_ready 0.0",
        "kohort_disk_free_bytes 7000.0",
        "kohort_disk_total_bytes 9000.0",
        "kohort_loop_lag_seconds_max 0.25",
        'kohort_task_up{task="log cleaner"} 0.0',
        'kohort_task_restarts_total{task="log cleaner"} 2.0',
    ):
        assert line in lines


async def test_reasons_are_cut_where_a_whole_disk_is_gone(site: Site) -> None:
    site.view.held = [FakePartition("trips", index, offline=OSError("gone")) for index in range(50)]
    answer = await site.get("/health/ready")
    assert len(answer.json["reasons"]) == 21
    assert answer.json["reasons"][-1] == "30 more partitions are offline"


async def test_metrics_hold_every_family_under_its_documented_name(site: Site) -> None:
    answer = await site.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    kinds = {
        metric.name + ("_total" if metric.type == "counter" else ""): metric.type
        for metric in parse_plain(answer.body.decode())
    }
    assert {family.name: family.kind for family in FAMILIES}.items() <= kinds.items()
    assert "process_resident_memory_bytes" in kinds


async def test_metrics_show_what_was_counted(site: Site) -> None:
    counters = site.view.counters
    counters.transport.requests[12] = 5
    counters.transport.request_failed(27)
    counters.groups.rebalance_started("MEMBER_JOINED")
    counters.groups.rebalance_completed(a_report())
    site.view.group_list = [a_group()]
    text = (await site.get("/metrics")).body.decode()
    for line in (
        'kohort_requests_total{api="Heartbeat"} 5.0',
        'kohort_request_errors_total{error="REBALANCE_IN_PROGRESS"} 1.0',
        'kohort_rebalances_total{cause="member_joined"} 1.0',
        'kohort_rebalance_seconds_bucket{le="0.5"} 1.0',
        "kohort_rebalance_seconds_sum 0.2",
        'kohort_groups{state="PreparingRebalance"} 1.0',
        'kohort_groups{state="Stable"} 0.0',
        "kohort_connections 4.0",
        "kohort_fetch_sessions 6.0",
        "kohort_fetch_sessions_evicted_total 1.0",
        'kohort_log_end_offset{partition="0",topic="flights"} 10.0',
    ):
        assert line in text.splitlines()


async def test_metrics_show_what_is_used_of_quotas_under_kafkas_names(site: Site) -> None:
    site.view.quotas = [
        Use("producer_byte_rate", "alice", "app", 1_234.5, 700),
        Use("consumer_byte_rate", "", "app", 7.0, 0),
        Use("request_percentage", "bob", "", 12.5, 3),
        Use("controller_mutation_rate", "bob", "", -2.0, 400),
    ]
    lines = (await site.get("/metrics")).body.decode().splitlines()
    for line in (
        'kafka_server_produce_byte_rate{client_id="app",user="alice"} 1234.5',
        'kafka_server_produce_throttle_time{client_id="app",user="alice"} 700.0',
        'kafka_server_fetch_byte_rate{client_id="app",user=""} 7.0',
        'kafka_server_request_request_time{client_id="",user="bob"} 12.5',
        'kafka_server_controllermutation_tokens{client_id="",user="bob"} -2.0',
        'kafka_server_controllermutation_throttle_time{client_id="",user="bob"} 400.0',
    ):
        assert line in lines


async def test_metrics_bear_the_names_that_dashboards_for_kafka_know(site: Site) -> None:
    group = a_group()
    group.offsets["flights"][1] = OffsetCommitValue(
        offset=7, metadata="", commit_timestamp=5, topic_id=UUID(int=0)
    )
    site.view.group_list = [group]
    site.view.counters.groups.offset_commits = 12
    site.view.counters.groups.rebalance_completed(a_report())
    site.view.counters.groups.offsets_went("expired", 3)
    site.view.counters.groups.offsets_went("on request", 1)
    site.view.counters.groups.shard_loaded(0.25)
    lines = (await site.get("/metrics")).body.decode().splitlines()
    place = 'consumergroup="billing/eu",partition="0",topic="flights"'
    for line in (
        f"kafka_consumergroup_current_offset{{{place}}} 4.0",
        f"kafka_consumergroup_lag{{{place}}} 5.0",
        f"kohort_consumergroup_lag_seconds{{{place}}} 2.5",
        'kafka_consumergroup_lag_sum{consumergroup="billing/eu",topic="flights"} 7.0',
        'kafka_consumergroup_current_offset_sum{consumergroup="billing/eu",topic="flights"} 11.0',
        'kafka_consumergroup_members{consumergroup="billing/eu"} 1.0',
        'kohort_consumergroup_partitions{consumergroup="billing/eu",verdict="warn"} 1.0',
        'kohort_consumergroup_partitions{consumergroup="billing/eu",verdict="stop"} 0.0',
        'kafka_topic_partitions{topic="flights"} 2.0',
        'kafka_topic_partition_current_offset{partition="0",topic="flights"} 9.0',
        'kafka_topic_partition_oldest_offset{partition="0",topic="flights"} 3.0',
        'kafka_topic_partition_under_replicated_partition{partition="1",topic="flights"} 1.0',
        "kafka_brokers 1.0",
        "kafka_coordinator_group_groupmetadatamanager_numgroups 1.0",
        "kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance 1.0",
        "kafka_coordinator_group_groupmetadatamanager_numoffsets 2.0",
        'kafka_server_group_coordinator_metrics_num_partitions{state="active"} 2.0',
        "kafka_server_group_coordinator_metrics_offset_commit_count 12.0",
        "kafka_server_group_coordinator_metrics_offset_expiration_count 3.0",
        "kafka_server_group_coordinator_metrics_offset_deletion_count 1.0",
        "kafka_server_group_coordinator_metrics_group_completed_rebalance_count 1.0",
        "kafka_server_group_coordinator_metrics_partition_load_time_max 250.0",
        "kohort_rebalance_join_seconds_sum 0.15",
    ):
        assert line in lines, line


async def test_metrics_speak_openmetrics_to_those_who_ask(site: Site) -> None:
    answer = await site.get("/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    text = answer.body.decode()
    names = {metric.name for metric in parse_openmetrics(text)}  # type: ignore[no-untyped-call]  # theirs
    assert "kohort_requests" in names


async def test_an_offline_or_unopened_log_has_no_offsets_to_show(site: Site) -> None:
    site.view.held = [
        FakePartition("trips", 0, offline=OSError("gone")),
        FakePartition("trips", 1, opened=False),
    ]
    text = (await site.get("/metrics")).body.decode()
    assert "kohort_partitions 2.0" in text
    assert "kohort_partitions_offline 1.0" in text
    assert "kohort_log_end_offset{" not in text


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
async def test_names_that_clients_choose_stay_within_their_label(site: Site, accept: str) -> None:
    group = a_group()
    group.group_id = 'a"} 1\\\nforged 2'
    site.view.group_list = [group]
    text = (await site.get("/metrics", accept=accept)).body.decode()
    parse = parse_openmetrics if accept else parse_plain
    found = {metric.name: metric.samples for metric in parse(text)}
    assert "forged" not in found
    for name in ("kafka_consumergroup_members", "kafka_consumergroup_lag", "kafka_consumergroup_lag_sum"):
        assert [each.labels["consumergroup"] for each in found[name]] == [group.group_id]
    assert text.endswith("# EOF\n") == bool(accept)


async def test_metrics_are_written_once_a_second(site: Site) -> None:
    first = await site.get("/metrics")
    site.view.counters.transport.malformed_requests = 9
    second = await site.get("/metrics")
    assert first.body == second.body


async def test_groups_are_listed_by_name(site: Site) -> None:
    site.view.group_list = [ClassicGroup("b"), ClassicGroup("a")]
    site.view.shards_loading = [2]
    answer = (await site.get("/api/v1/groups")).json
    assert [group["group_id"] for group in answer["groups"]] == ["a", "b"]
    assert answer["groups"][0] == {
        "group_id": "a",
        "state": "Empty",
        "protocol_type": "",
        "generation_id": 0,
        "member_count": 0,
        "rebalance_cause": None,
        "last_rebalance_cause": None,
    }
    assert answer["loading"] == [2]


async def test_a_group_tells_its_offsets_and_whom_its_rebalance_waits_for(site: Site) -> None:
    site.view.group_list = [a_group()]
    answer = (await site.get("/api/v1/groups/billing%2Feu")).json
    assert (answer["lag"], answer["lag_seconds"], answer["verdict"]) == (5, 2.5, "WARN")
    assert (answer["offsets"][0]["lag"], answer["offsets"][0]["verdict"]) == (5, "WARN")
    assert answer["members"][0]["client_host"] == "/127.0.0.1"
    assert answer["rebalance"]["cause"]["kind"] == "a member joined"
    assert answer["rebalance"]["waits_for_member_ids"] == ["c-1"]
    assert answer["history"] == []


@pytest.mark.parametrize(
    "method, path, status",
    [("GET", "/api/v1/groups/nobody", 404), ("GET", "/nowhere", 404), ("POST", "/metrics", 405)],
)
async def test_errors_are_json(site: Site, method: str, path: str, status: int) -> None:
    answer = await site.get(path, method=method)
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    assert "error" in answer.json
    if status == 405:
        assert "GET" in answer.headers["allow"]


def test_a_broker_that_nobody_asks_loads_no_http_library() -> None:
    script = (
        "import sys, kohort.broker.http; print({'h11', 'starlette', 'prometheus_client'} & set(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "set()"


@pytest.mark.parametrize(
    "name",
    ["a\nb", "a\n", "\n", "a\rb", "a\u2028b", "a/b", "/", "//", "", ".", "..", "a/../b", "a%2Fb", "%", "a+b",
     "a b", "?", "#", "\x00", "\x85", "\ufffd", "\U0001f600", "groups", "a?scope=broker", "x/events"],
)  # fmt: skip
async def test_a_group_is_found_whatever_its_name(site: Site, name: str) -> None:
    site.view.group_list.append(ClassicGroup(name))
    answer = await site.get(f"/api/v1/groups/{quote(name, safe='')}")
    assert (answer.status, answer.json.get("group_id")) == (200, name)


@pytest.mark.parametrize("path", ["/api/v1/groups/loading-1", "/api/v1/live/group?id=loading-1"])
async def test_a_group_that_may_be_there_is_not_said_to_be_missing(site: Site, path: str) -> None:
    answer = await site.get(path)
    assert (answer.status, answer.json["error"]) == (
        503,
        "the groups that loading-1 is among are being loaded: try again",
    )

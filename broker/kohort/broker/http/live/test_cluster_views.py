"""Views of the cluster: partitions with a problem, readers of a topic, transactions, quotas, the charts."""

import socket
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import msgspec
import pytest
import trio
import trio.testing

from kohort.broker.authorization.acls import Binding, Entry, Pattern
from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.http import cluster_merging as merging
from kohort.broker.http import pages
from kohort.broker.http.live import groups, readers
from kohort.broker.http.live import history as samples
from kohort.broker.http.live.access import ACLS_SHOWN
from kohort.broker.http.live.health import PROBLEMS_SHOWN
from kohort.broker.http.live.history import GROUP, TOPIC, History, Sample, added
from kohort.broker.http.live.readers import READERS_SHOWN
from kohort.broker.http.live.transactions import TRANSACTIONS_SHOWN
from kohort.broker.http.page_parts import PageParts
from kohort.broker.http.questions import Answer
from kohort.broker.http.test_http import FakePartition, FakeView, Site, a_group
from kohort.broker.http.test_many_groups import a_group_with_offsets
from kohort.broker.metadata import BrokerState, PartitionState, TopicState
from kohort.broker.quotas.meter import Use
from kohort.broker.runtime.clock import SystemClock
from kohort.broker.runtime.supervisor import Supervisor
from kohort.broker.runtime.workers import TrioWorkers
from kohort.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from kohort.protocol.messages import describe_client_quotas as quotas
from kohort.protocol.messages import describe_transactions as described
from kohort.protocol.messages import list_transactions as listed
from kohort.protocol.offsets_topic import OffsetCommitValue


@pytest.fixture
async def site(nursery: trio.Nursery) -> AsyncIterator[Site]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        view = FakeView()
        nursery.start_soon(pages.serve, view, sock)
        yield Site(view, sock.getsockname()[1])


def answer(content: object) -> Answer:
    return Answer(200, (), msgspec.json.encode(content))


async def test_partitions_without_a_leader_or_with_too_few_replicas_in_sync_are_named(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.view.broker_list = [BrokerState(each, "127.0.0.1", 9000 + each) for each in (1, 2)]
    site.view.held[0].offline = OSError("it is broken")
    states = (
        PartitionState(0, 1, 0, (1, 2), (1, 2)),
        PartitionState(1, 2, 0, (2, 1), (2,)),
        PartitionState(2, -1, 0, (3, 1), (3,)),
        PartitionState(3, 3, 0, (3,), (3,)),
    )
    monkeypatch.setattr(site.view, "topics", lambda: [TopicState("flights", UUID(int=1), states)])
    told = (await site.get("/api/v1/live/health")).json
    cluster = told["cluster"]
    assert (cluster["topics"], cluster["partitions"]) == (1, 4)
    assert (cluster["offline"], cluster["under_replicated"]) == (2, 2)
    found = [(each["partition"], each["is_offline"], each["in_sync"]) for each in cluster["problems"]]
    assert found == [(1, False, [2]), (2, True, [3]), (3, True, [3])], "broker 3 is gone"
    assert [(each["node_id"], each["leaders"], each["in_sync"]) for each in told["brokers"]] == [
        (1, 1, 1),
        (2, 1, 2),
    ]
    assert (told["size_bytes"], told["offline_logs"]) == (0, 1)
    many = tuple(PartitionState(each, -1, 0, (1,), ()) for each in range(PROBLEMS_SHOWN + 5))
    monkeypatch.setattr(site.view, "topics", lambda: [TopicState("flights", UUID(int=1), many)])
    cluster = (await site.get("/api/v1/live/health?id=1")).json["cluster"]
    assert (cluster["offline"], len(cluster["problems"])) == (PROBLEMS_SHOWN + 5, PROBLEMS_SHOWN)


async def test_who_reads_a_topic_is_told_with_the_lag_in_it_alone(site: Site) -> None:
    subscribed = ConsumerGroup("subscribed")
    subscribed.subscribed_topics = frozenset(("flights",))
    other = a_group_with_offsets(7, 3)
    other.offsets = {"another": other.offsets["flights"]}
    both = a_group_with_offsets(8, 2)
    both.offsets = {**both.offsets, **other.offsets}
    site.view.group_list = [subscribed, other, both, a_group()]
    told = (await site.get("/api/v1/live/topic?name=flights")).json
    rows = [(each["group_id"], each["type"], each["lag"]) for each in told["readers"]]
    assert rows == [
        ("group-00008", "classic", 10),
        ("billing/eu", "classic", 5),
        ("subscribed", "consumer", None),
    ]
    assert (told["readers"][0]["verdict"], told["readers_left_out"]) == ("WARN", 0)
    site.view.group_list = [a_group_with_offsets(each) for each in range(READERS_SHOWN + 3)]
    told = (await site.get("/api/v1/live/topic?name=flights&again=1")).json
    assert (len(told["readers"]), told["readers_left_out"]) == (READERS_SHOWN, 3)


async def test_a_reader_of_very_many_partitions_takes_no_lag_from_the_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "PARTITIONS_TIMED_MAX", 3)
    site.view.group_list = [a_group_with_offsets(0, 4), a_group_with_offsets(1, 2)]
    told = (await site.get("/api/v1/live/topic?name=flights")).json
    assert [(each["group_id"], each["lag"]) for each in told["readers"]] == [
        ("group-00001", 10),
        ("group-00000", None),
    ]


def test_readers_of_all_coordinators_are_put_together() -> None:
    def told(*lags: int, left_out: int = 0) -> Answer:
        readers = [{"group_id": f"g-{each}", "lag": each} for each in lags]
        return answer({"partitions": [], "readers": readers, "readers_left_out": left_out})

    found = merging.live_topic({1: told(3, 1), 2: told(*range(4, 4 + READERS_SHOWN), left_out=2)}, {}, 1, {})
    assert [each["lag"] for each in found["readers"][:2]] == [READERS_SHOWN + 3, READERS_SHOWN + 2]
    assert (len(found["readers"]), found["readers_left_out"]) == (READERS_SHOWN, 4)


def a_transaction(number: int, state: str, started_ms: int) -> described.DescribeTransactionsTransactionState:
    return described.DescribeTransactionsTransactionState(
        error_code=0,
        transactional_id=f"t-{number}",
        transaction_state=state,
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=started_ms,
        producer_id=number,
        producer_epoch=2,
        topics=(described.DescribeTransactionsTopicData(topic="orders", partitions=(0, 2)),),
    )


async def test_the_transaction_that_is_open_longest_comes_first(site: Site) -> None:
    all_of_them = [
        a_transaction(1, "CompleteCommit", -1),
        a_transaction(2, "Ongoing", 2_000),
        a_transaction(3, "PrepareAbort", 1_000),
    ]
    site.view.answers = {
        "ListTransactions": listed.ListTransactionsResponse(
            throttle_time_ms=0,
            error_code=0,
            unknown_state_filters=(),
            transaction_states=tuple(
                listed.ListTransactionsTransactionState(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    transaction_state=each.transaction_state,
                )
                for each in all_of_them
            ),
        ),
        "DescribeTransactions": described.DescribeTransactionsResponse(
            throttle_time_ms=0, transaction_states=tuple(all_of_them)
        ),
    }
    told = (await site.get("/api/v1/live/transactions")).json
    assert [each["transactional_id"] for each in told["transactions"]] == ["t-3", "t-2", "t-1"]
    assert (told["total"], told["open"], told["loading"]) == (3, 2, False)
    first, _, last = told["transactions"]
    assert (first["started_ms"], first["is_open"], first["topics"]) == (1_000, True, [["orders", [0, 2]]])
    assert (last["started_ms"], last["is_open"]) == (None, False)
    merged = merging.live_transactions({1: answer(told), 2: answer(told)}, {3: "it is gone"}, 1, {})
    assert (merged["total"], merged["open"]) == (6, 4)
    assert [each["transactional_id"] for each in merged["transactions"][:3]] == ["t-3", "t-3", "t-2"]
    assert merged["unanswered"] == [{"broker": 3, "reason": "it is gone"}]
    many = {**told, "transactions": told["transactions"] * TRANSACTIONS_SHOWN}
    merged = merging.live_transactions({1: answer(many), 2: answer({"error": "not now"})}, {}, 1, {})
    assert len(merged["transactions"]) == TRANSACTIONS_SHOWN


async def test_access_control_entries_and_quotas_are_listed_where_records_are_shown(site: Site) -> None:
    pattern = Pattern(AclResourceType.TOPIC, AclPatternType.PREFIXED, "orders-")
    entries = [
        Entry(f"User:{number}", "*", AclOperation.READ, AclPermission.DENY)
        for number in range(ACLS_SHOWN + 1)
    ]
    site.view.bindings = [Binding(pattern, entry) for entry in entries]
    entity = quotas.DescribeClientQuotasEntity(entity_type="user", entity_name=None)
    value = quotas.DescribeClientQuotasValue(key="producer_byte_rate", value=1024.0)
    entry = quotas.DescribeClientQuotasEntry(entity=(entity,), values=(value,))
    site.view.answers["DescribeClientQuotas"] = quotas.DescribeClientQuotasResponse(
        throttle_time_ms=0, error_code=0, error_message=None, entries=(entry,)
    )
    site.view.quotas = [
        Use("producer_byte_rate", "ada", "", 9.5, 0),
        Use("request_percentage", "", "c", 1.0, 40),
    ]
    told = (await site.get("/api/v1/live/access")).json
    assert told["acls"][7] == {
        "principal": "User:7",
        "host": "*",
        "permission": "DENY",
        "operation": "READ",
        "resource_type": "TOPIC",
        "pattern_type": "PREFIXED",
        "name": "orders-",
    }
    assert (len(told["acls"]), told["acls_left_out"]) == (ACLS_SHOWN, True)
    assert told["quotas"] == [{"entity": [["user", None]], "values": [["producer_byte_rate", 1024.0]]}]
    assert [(each["user"], each["client_id"], each["throttle_ms"]) for each in told["uses"]] == [
        ("", "c", 40),
        ("ada", "", 0),
    ]
    merged = merging.live_access({1: answer(told), 2: answer(told)}, {}, 1, {})
    assert (len(merged["acls"]), len(merged["uses"])) == (ACLS_SHOWN, 4)
    site.view.messages_shown = False
    hidden = (await site.get("/api/v1/live/access?again=1")).json
    assert hidden == {"is_hidden": True, "acls": [], "acls_left_out": False, "quotas": [], "uses": []}
    assert merging.live_access({1: answer(hidden), 2: answer(told)}, {}, 1, {}) == hidden


class Wall:
    """A wall clock that goes with trio's."""

    def now_ms(self) -> int:
        return int(trio.current_time() * 1_000) + 1_000_000


async def test_samples_are_taken_of_what_somebody_looks_at_and_forgotten_after_a_while(
    autojump_clock: trio.testing.MockClock,
) -> None:
    view = FakeView()
    group = a_group_with_offsets(1, 2)
    view.group_list = [group]
    found = History(view, Wall().now_ms)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.run)
        await trio.sleep(60)
        assert found.samples(GROUP, group.group_id) == [], "nobody has looked"
        found.want(GROUP, [group.group_id, "gone"])
        found.want(TOPIC, ["flights"])
        await trio.sleep(35)
        view.held[0].high_watermark = 11
        await trio.sleep(10)
        first, *_, last = found.samples(GROUP, group.group_id)
        assert first == Sample(1_070_000, 2, 8, 10)
        assert last.at_ms - first.at_ms == 3 * samples.INTERVAL_MS
        ends = [each.position for each in found.samples(TOPIC, "flights")]
        assert (ends[0], ends[-1]) == (9, 11)
        assert found.samples(GROUP, "gone") == []
        await trio.sleep(samples.UNLOOKED_SECONDS + 20)
        assert found.samples(GROUP, group.group_id) == []
        found.want(GROUP, [group.group_id])
        await trio.sleep(20)
        assert found.samples(GROUP, group.group_id), "who looks again is shown again"
        nursery.cancel_scope.cancel()


async def test_so_many_are_sampled_and_each_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "KEPT_MAX", 3)
    monkeypatch.setattr(samples, "SAMPLES_MAX", 4)
    view = FakeView()
    view.group_list = [a_group_with_offsets(each) for each in range(5)]
    at_ms = 0
    found = History(view, lambda: at_ms)
    found.want(GROUP, [each.group_id for each in view.group_list])
    for _ in range(6):
        at_ms += samples.INTERVAL_MS
        await found.look()
        await found.look()
    assert [len(found.samples(GROUP, each.group_id)) for each in view.group_list] == [0, 0, 4, 4, 4]
    times = [each.at_ms for each in found.samples(GROUP, "group-00004")]
    assert times == [30_000, 40_000, 50_000, 60_000], "one in an interval, the last ones"


async def test_the_loop_serves_others_between_many_groups_of_few_partitions(nursery: trio.Nursery) -> None:
    view = FakeView()
    view.group_list = [a_group_with_offsets(each, 250) for each in range(40)]
    found = History(view, lambda: 10_000)
    found.want(GROUP, [each.group_id for each in view.group_list])
    served = 0

    async def serve() -> None:
        nonlocal served
        while True:
            served += 1
            await trio.lowlevel.checkpoint()

    nursery.start_soon(serve)
    await found.look()
    assert served >= 9
    served = 0
    await groups.list_view(view, {}, found)
    assert served >= 9


async def test_a_sum_of_offsets_that_no_series_holds_ends_no_history() -> None:
    view = FakeView()
    group = a_group_with_offsets(0, 3)
    offsets = group.offsets["flights"]
    large = OffsetCommitValue(offset=2**62, metadata="", commit_timestamp=5, topic_id=UUID(int=0))
    offsets.update(dict.fromkeys(offsets, large))
    view.group_list = [group]
    found = History(view, lambda: 10_000)
    found.want(GROUP, [group.group_id])
    await found.look()
    assert [each.position for each in found.samples(GROUP, group.group_id)] == [2**63 - 1]


def test_samples_of_leaders_are_added_where_both_have_one() -> None:
    assert added([[[10, 1, 5, 7], [20, 1, 6, 8]], [[20, 2, 1, 1]]]) == [
        Sample(10, 1, 5, 7),
        Sample(20, 3, 7, 9),
    ]
    told: dict[int, Any] = {
        each: answer({"kind": "topic", "name": "t", "samples": [[10, 1, each, 0]]}) for each in (1, 2)
    }
    assert merging.live_history(told, {}, 1, {})["samples"] == [Sample(10, 2, 3, 0)]


async def test_the_charts_view_has_the_samples(site: Site) -> None:
    site.view.group_list = [a_group()]
    told = (await site.get("/api/v1/live/history?kind=group&name=billing/eu")).json
    assert told == {"kind": "group", "name": "billing/eu", "interval_ms": 10_000, "samples": []}


async def test_a_part_of_the_pages_is_started_once_for_all_who_ask() -> None:
    class Runs:
        began = 0

        async def run(self, part: object) -> None:
            Runs.began += 1

    async with trio.open_nursery() as nursery:
        supervisor = Supervisor(TrioWorkers(nursery), SystemClock())
        parts = PageParts(supervisor)
        first = parts.part("charts", Runs)
        assert parts.part("charts", Runs) is first
        assert [each.name for each in supervisor.parts] == ["charts"]
    assert Runs.began == 1


async def test_a_topic_of_several_leaders_is_sampled_by_each(site: Site) -> None:
    site.view.held = [FakePartition("flights", 0), FakePartition("flights", 1)]
    found = History(site.view, lambda: 10_000)
    found.want(TOPIC, ["flights"])
    site.view.node_id = 2
    await found.look()
    assert found.samples(TOPIC, "flights") == [], "it leads none of them"

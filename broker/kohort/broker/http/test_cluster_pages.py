"""One address for a cluster of made-up brokers: who is asked, what becomes of their answers, who is named."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import trio
import trio.testing
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from kohort.broker.http import cluster_merging as merging
from kohort.broker.http.brokers import ANSWER_SECONDS, SILENT_SECONDS, Brokers
from kohort.broker.http.cluster_pages import ClusterPages
from kohort.broker.http.own_pages import WAITING_MAX, OwnPages
from kohort.broker.http.questions import Answer, Question, answered
from kohort.broker.http.view import View
from kohort.broker.metadata import MetadataStore
from kohort.broker.runtime.other_brokers import OtherBrokers, Unreachable
from kohort.protocol.between_brokers import BrokerPageRequest, BrokerPageResponse

ME = 1
SECRET = (b"authorization", b"Bearer secret")


class OthersAsked:
    """Two other brokers: 2 and 3."""

    node_id = ME

    def __init__(self) -> None:
        self.asked: list[tuple[int, BrokerPageRequest]] = []
        self.answers: dict[int, Callable[[], Awaitable[BrokerPageResponse]]] = {}

    async def ask(
        self, node_id: int, request: BrokerPageRequest, answer: object, version: int
    ) -> BrokerPageResponse:
        self.asked.append((node_id, request))
        return await self.answers.get(node_id, lambda: groups_of(node_id))()


async def groups_of(node_id: int) -> BrokerPageResponse:
    groups = {"groups": [{"group_id": f"of-{node_id}"}], "loading": []}
    return BrokerPageResponse(error_code=0, status=200, body=msgspec.json.encode(groups))


async def own(scope: Scope, receive: Receive, send: Send) -> None:
    content = {"groups": [{"group_id": "of-1"}], "loading": [], "path": scope["path"]}
    await JSONResponse(content)(scope, receive, send)


class Site:
    """Broker 1, which answers for three."""

    def __init__(self) -> None:
        self.others = OthersAsked()
        brokers = tuple(SimpleNamespace(node_id=each) for each in (ME, 2, 3))
        store = SimpleNamespace(snapshot=lambda: SimpleNamespace(brokers=brokers, topics={}))
        self.view = SimpleNamespace(asks=lambda: None, shows_messages=lambda: True)
        brokers_asked = Brokers(cast(MetadataStore, store), cast(OtherBrokers, self.others))
        self.pages = ClusterPages(own, brokers_asked, cast(View, self.view))

    async def get(self, path: str = "/api/v1/groups", query: bytes = b"") -> Answer:
        return await answered(self.pages, Question("GET", path, query, (SECRET,)))

    async def groups(self) -> Any:
        found = (await self.get()).json()
        return [each["group_id"] for each in found["groups"]], found["unanswered"]


@pytest.fixture
def site() -> Site:
    return Site()


async def test_a_list_is_of_all_brokers_and_no_secret_is_passed_on(site: Site) -> None:
    assert await site.groups() == (["of-1", "of-2", "of-3"], [])
    assert sorted(node_id for node_id, _ in site.others.asked) == [2, 3]
    assert not any(each.headers for _, each in site.others.asked)


async def test_the_scope_of_one_broker_asks_nobody(site: Site) -> None:
    assert (await site.get(query=b"scope=broker")).json()["path"] == "/api/v1/groups"
    assert (await site.get("/metrics")).json()["path"] == "/metrics"
    assert (await site.get("/health/ready")).json()["path"] == "/health/ready"
    assert site.others.asked == []


async def test_nobody_is_asked_for_a_view_that_there_is_not(site: Site) -> None:
    await site.get("/api/v1/live/nothing")
    assert site.others.asked == []


async def hangs() -> BrokerPageResponse:
    await trio.sleep_forever()
    raise AssertionError


async def is_not_there() -> BrokerPageResponse:
    raise Unreachable("broker 3 is not there")


async def has_too_much_to_do() -> BrokerPageResponse:
    return BrokerPageResponse(error_code=0, status=503)


async def fails() -> BrokerPageResponse:
    return BrokerPageResponse(error_code=0, status=500, body=b'{"error":"internal error"}')


async def refuses() -> BrokerPageResponse:
    return BrokerPageResponse(error_code=31)


async def shows_no_records() -> BrokerPageResponse:
    return BrokerPageResponse(error_code=0, status=403, body=b'{"error":"records are not shown"}')


async def finds_a_record() -> BrokerPageResponse:
    record = {"partition": 0, "offset": 4, "timestamp_ms": 9}
    partition = {"partition": 0, "searched": 1, "next_offset": 5, "high_watermark": 5}
    body = {"partitions": [partition], "records": [record], "not_searched": []}
    return BrokerPageResponse(error_code=0, status=200, body=msgspec.json.encode(body))


@pytest.mark.parametrize(
    "answer, reason",
    [
        (hangs, "no answer within 4 s"),
        (is_not_there, "broker 3 is not there"),
        (has_too_much_to_do, "it answers 503"),
        (fails, "internal error"),
        (refuses, "CLUSTER_AUTHORIZATION_FAILED"),
    ],
)
async def test_who_does_not_answer_is_named_with_the_reason(
    site: Site,
    autojump_clock: trio.testing.MockClock,
    answer: Callable[[], Awaitable[BrokerPageResponse]],
    reason: str,
) -> None:
    site.others.answers[3] = answer
    assert await site.groups() == (["of-1", "of-2"], [{"broker": 3, "reason": reason}])


async def test_a_broker_that_may_not_show_its_records_is_named_in_a_search_of_all(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def finds_none(scope: Scope, receive: Receive, send: Send) -> None:
        await JSONResponse({"partitions": [], "records": [], "not_searched": []})(scope, receive, send)

    monkeypatch.setattr(site.pages, "_own", finds_none)
    site.others.answers = {2: finds_a_record, 3: shows_no_records}
    found = (await site.get("/api/v1/live/messages/orders", b"partition=all")).json()
    assert [each["offset"] for each in found["records"]] == [4]
    assert found["unanswered"] == [{"broker": 3, "reason": "records are not shown"}]


def test_a_broker_of_an_earlier_version_names_no_readers_of_a_topic() -> None:
    told = {
        1: {"partitions": [], "readers": [{"group_id": "g", "lag": 1}], "readers_left_out": 0},
        2: {"partitions": []},
    }
    answers = {each: Answer(200, (), msgspec.json.encode(content)) for each, content in told.items()}
    found = merging.live_topic(answers, {}, 1, {})
    assert [each["group_id"] for each in found["readers"]] == ["g"]
    assert found["readers_left_out"] == 0


async def test_a_broker_that_hangs_makes_one_page_slow_and_is_asked_again_after_a_while(
    site: Site, autojump_clock: trio.testing.MockClock
) -> None:
    site.others.answers[3] = hangs
    began = trio.current_time()
    await site.groups()
    assert trio.current_time() - began == ANSWER_SECONDS
    await trio.sleep(1.5)  # Lists are kept for a second.
    began = trio.current_time()
    assert (await site.groups())[1] == [{"broker": 3, "reason": "no answer within 4 s"}]
    assert trio.current_time() == began
    del site.others.answers[3]
    await trio.sleep(SILENT_SECONDS)
    assert await site.groups() == (["of-1", "of-2", "of-3"], [])


async def test_only_so_many_pages_are_made_and_wait_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = OwnPages(lambda: cast(View, None))
    may_end = trio.Event()

    async def made(asked: BrokerPageRequest) -> Answer:
        await may_end.wait()
        return Answer(200, (), b"{}")

    monkeypatch.setattr(pages, "_answered", made)
    statuses: list[int] = []

    async def ask() -> None:
        statuses.append((await pages.answer(BrokerPageRequest(path="/api/v1/groups"))).status)

    async with trio.open_nursery() as nursery:
        for _ in range(WAITING_MAX + 10):
            nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert statuses == [503] * 6
        may_end.set()
    assert statuses == [503] * 6 + [200] * (WAITING_MAX + 4)


@pytest.mark.parametrize("path", ["/metrics", "/health/ready", "/", "/api/v1/live/groups/events"])
async def test_another_broker_is_given_nothing_but_pages_that_end(path: str) -> None:
    pages = OwnPages(lambda: cast(View, None))
    assert (await pages.answer(BrokerPageRequest(path=path))).status == 404


@pytest.mark.parametrize("path", ["/api/v1/groups/orders/events", "/api/v1/share-groups/events"])
async def test_a_group_may_be_named_like_a_feed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = OwnPages(lambda: cast(View, None))

    async def made(asked: BrokerPageRequest) -> Answer:
        return Answer(200, (), b"{}")

    monkeypatch.setattr(pages, "_answered", made)
    assert (await pages.answer(BrokerPageRequest(path=path))).status == 200


def test_health_is_that_of_the_broker_that_is_asked_for_beside_all_others() -> None:
    brokers = [{"node_id": each} for each in (1, 2, 3)]
    told = {
        each: Answer(200, (), msgspec.json.encode({"node_id": each, "reasons": [], "brokers": brokers}))
        for each in (1, 2)
    }
    silent = {3: "it is gone"}
    assert merging.live_health(told, silent, 1, {})["node_id"] == 1
    other = merging.live_health(told, silent, 1, {"id": "2"})
    assert other["node_id"] == 2
    assert [(each["reasons"], each["silent"]) for each in other["brokers"]] == [
        ([], None),
        ([], None),
        (None, "it is gone"),
    ]
    assert "broker 3 is not in the cluster" in merging.live_health(told, silent, 1, {"id": "3"})["error"]
    assert "error" in merging.live_health(told, silent, 1, {"id": "x"})

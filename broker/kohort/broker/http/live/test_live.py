"""The live page's views over a made-up broker: what they tell, what they leave out, and what they cost."""

import gc
import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
import pytest
import trio
import trio.testing
from starlette.types import Message

from kohort.broker.explain.story import time_zones
from kohort.broker.group.events import CauseKind
from kohort.broker.http import keeping, pages
from kohort.broker.http.live import feed, messages
from kohort.broker.http.live.groups import GROUPS_SHOWN, OFFSETS_SHOWN, storm
from kohort.broker.http.live.messages import SHOWN_BYTES
from kohort.broker.http.live.reading_records import BATCH_OVERHEAD_BYTES, DECOMPRESSED_BYTES_MAX
from kohort.broker.http.page_files import ASSETS
from kohort.broker.http.test_http import FakePartition, FakeView, Site, a_group, a_report
from kohort.broker.http.test_many_groups import a_group_with_offsets, longest_step
from kohort.broker.metadata import PartitionState, TopicState
from kohort.protocol.records import (
    Compression,
    ControlType,
    RecordFields,
    build_batch,
    build_transaction_marker,
)

STEP_SECONDS_MAX = 0.05
FILES = [each.name for each in ASSETS.iterdir() if each.suffix in (".js", ".css")]


@pytest.fixture
async def site(nursery: trio.Nursery) -> AsyncIterator[Site]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        view = FakeView()
        nursery.start_soon(pages.serve, view, sock)
        yield Site(view, sock.getsockname()[1])


async def test_a_browser_gets_the_page_and_a_script_the_list_of_paths(site: Site) -> None:
    page = await site.get("/", accept="text/html,application/xhtml+xml")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
    assert "unsafe" not in policy
    assert (await site.get("/")).json["paths"]["/"]
    for name in FILES:
        answer = await site.get(f"/page/{name}")
        assert answer.status == 200, name
        assert answer.headers["x-content-type-options"] == "nosniff"
    for wrong in ("/page/../pages.py", "/page/routes.py", "/page/%2e%2e%2fpages.py", "/page/none.js"):
        assert (await site.get(wrong)).status == 404


def test_the_page_is_imported_when_it_is_asked_for() -> None:
    program = (
        "import sys, kohort.broker.http.pages; print(sorted(n for n in sys.modules if '.http.live' in n))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


async def test_nothing_of_the_page_comes_from_elsewhere_or_is_made_of_markup(site: Site) -> None:
    for name in FILES:
        text = (await site.get(f"/page/{name}")).body.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text
        assert "https:" not in text
        for danger in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "srcdoc"):
            assert danger not in text, name
        assert 'h("details", {}' not in text, (
            "what is unfolded is found by its id when the view is drawn anew"
        )


async def test_the_list_tells_the_first_groups_by_lag_and_counts_the_others(site: Site) -> None:
    site.view.held = [FakePartition("flights", each) for each in range(3)]
    site.view.group_list = [a_group_with_offsets(each, each % 4) for each in range(400)]
    told = (await site.get("/api/v1/live/groups")).json
    assert (told["total"], told["matching"], len(told["groups"])) == (400, 400, GROUPS_SHOWN)
    assert told["by_state"] == {"Empty": 400}
    lags = [each["lag"] for each in told["groups"]]
    assert lags[0] == 15
    assert lags == sorted(lags, reverse=True)
    assert told["groups"][0]["lag_seconds"] == 2.5
    found = (await site.get("/api/v1/live/groups?q=UP-0039&order=name")).json
    assert [each["group_id"] for each in found["groups"]] == [f"group-0039{each}" for each in range(10)]


async def test_one_group_has_its_story_and_its_rows_have_a_limit(site: Site) -> None:
    group = a_group()
    site.view.journals[group.group_id].keep(a_report())
    value = group.offsets["flights"][0]
    group.offsets = {"flights": dict.fromkeys(range(OFFSETS_SHOWN + 7), value)}
    site.view.group_list = [group]
    told = (await site.get("/api/v1/live/group?id=billing/eu")).json
    assert (told["group_id"], told["state"], told["storm"]) == ("billing/eu", "PreparingRebalance", 0)
    (rebalance,) = told["rebalances"]
    assert "generation 2, stable after" in rebalance["story"][0]
    assert told["time_zone"] == time_zones(told["now_ms"])
    assert (len(told["offsets"]), told["offsets_left_out"]) == (OFFSETS_SHOWN, 7)
    assert (await site.get("/api/v1/live/group?id=gone")).status == 404


def test_a_storm_is_several_rebalances_within_five_minutes() -> None:
    def reports(*minutes: float, **changes: object) -> list[Any]:
        return [
            msgspec.structs.replace(a_report(), started_ms=int(each * 60_000), **changes) for each in minutes
        ]

    assert storm(reports(0, 1, 2)) == 0, "opening a consumer twice is none"
    assert storm(reports(0, 10, 20, 30)) == 0
    assert storm(reports(0, 10, 11, 12, 13, 14.5, 30)) == 5
    assert storm(reports(0, 1, 2, 3, is_initial=True)) == 0
    assert a_report().cause.kind is CauseKind.MEMBER_JOINED


async def test_topics_are_listed_and_described(site: Site) -> None:
    told = (await site.get("/api/v1/live/topics")).json
    (row,) = told["topics"]
    assert (row["name"], row["partitions"], row["records"], row["size_bytes"]) == ("flights", 2, 6, 700)
    topic = (await site.get("/api/v1/live/topic?name=flights")).json
    first, second = topic["partitions"]
    assert (first["high_watermark"], first["log_start_offset"]) == (9, 3)
    assert (second["replicas"], second["isr"], "size_bytes" in second) == ([1, 2], [1], False)
    assert topic["settings"][0] == {"name": "retention.ms", "value": "5", "is_set": True}
    assert (await site.get("/api/v1/live/topic?name=gone")).status == 404


async def test_health_tells_brokers_and_reasons(site: Site) -> None:
    site.view.health.wrong = ["the disk is full"]
    told = (await site.get("/api/v1/live/health")).json
    assert told["reasons"] == ["the disk is full"]
    (broker,) = told["brokers"]
    assert (broker["node_id"], broker["host"], broker["port"], broker["rack"]) == (1, "127.0.0.1", 9092, None)
    assert (told["controller"], broker["leaders"], broker["replicas"], broker["in_sync"]) == (1, 2, 2, 2)


def held(*records: RecordFields, compression: Compression = Compression.NONE) -> FakePartition:
    partition = FakePartition("flights", 0, high_watermark=3 + len(records))
    partition.log.batches = bytes(build_batch(list(records), base_offset=3, compression=compression))
    return partition


async def test_messages_are_shown_as_text_or_as_bytes_and_cut(site: Site) -> None:
    site.view.held = [
        held(
            (5, b"k", b"v", (("h", b"\xff"), ("n", None))),
            (6, None, b"\xff\x00", ()),
            (7, None, "é".encode() * 5_000, ()),
            (8, b"gone", None, ()),
        )
    ]
    told = (await site.get("/api/v1/live/messages/flights")).json
    first, second, third, fourth = told["records"]
    assert (first["offset"], first["key"]["text"], first["value"]["text"]) == (3, "k", "v")
    assert first["headers"] == [["h", {"size": 1, "text": None, "hex": "ff"}], ["n", None]]
    assert second["value"] == {"size": 2, "text": None, "hex": "ff00"}
    assert (third["value"]["size"], len(third["value"]["hex"])) == (10_000, 2 * SHOWN_BYTES)
    assert set(third["value"]["text"]) == {"é"}
    assert fourth["value"] is None
    later = (await site.get("/api/v1/live/messages/flights?offset=-2")).json
    assert [each["offset"] for each in later["records"]] == [5, 6]
    few = (await site.get("/api/v1/live/messages/flights?offset=3&count=2")).json
    assert ([each["offset"] for each in few["records"]], few["positions"]) == ([3, 4], "0:5")


async def test_messages_are_found_by_what_they_contain(site: Site) -> None:
    site.view.held = [
        held(
            (5, b"red apple", b"1", ()),
            (6, None, b"a red car", ()),
            (7, None, b"blue", (("colour", b"dark red"), ("n", None))),
            (8, None, None, (("red", None),)),
            (9, b"\xff", b"green", ()),
        )
    ]
    path = "/api/v1/live/messages/flights?q="
    told = (await site.get(f"{path}red")).json
    assert [each["offset"] for each in told["records"]] == [3, 4, 5, 6]
    assert (told["searched"], told["positions"]) == (5, "0:8")
    assert (await site.get(f"{path}purple")).json["records"] == []
    few = (await site.get(f"{path}red&count=2")).json
    assert ([each["offset"] for each in few["records"]], few["positions"]) == ([3, 4], "0:5")


async def test_messages_are_shown_from_a_time_on(site: Site) -> None:
    site.view.held = [held(*((at, None, b"%d" % at, ()) for at in (100, 200, 300)))]
    path = "/api/v1/live/messages/flights?time="
    assert [each["offset"] for each in (await site.get(f"{path}150")).json["records"]] == [4, 5]
    assert (await site.get(f"{path}0")).json["partitions"][0]["offset"] == 3
    late = (await site.get(f"{path}301")).json
    assert (late["records"], late["partitions"][0]["offset"]) == ([], 6)
    assert (await site.get(f"{path}noon")).status == 400


async def test_a_search_unpacks_so_much_and_says_where_to_go_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "SEARCHED_BYTES_MAX", 5_000)
    partition = held((1, None, b"x" * 1_000, ()))
    batches = [build_batch([(1, None, b"x" * 1_000, ())], base_offset=3 + index) for index in range(20)]
    partition.log.batches, partition.high_watermark = b"".join(batches), 23
    site.view.held = [partition]
    told = (await site.get("/api/v1/live/messages/flights?q=needle")).json
    assert told["records"] == []
    assert told["searched"] == 5  # With what each record costs beside its bytes.
    assert told["positions"] == "0:8"


@pytest.mark.parametrize("query", ["offset=0", "time=0", "offset=0&q=needle", "offset=-20"])
async def test_a_look_ends_among_batches_that_have_nothing_to_show(
    site: Site, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(messages, "SEARCHED_BYTES_MAX", 5 * BATCH_OVERHEAD_BYTES)
    ends = partial(
        build_transaction_marker,
        ControlType.COMMIT,
        timestamp_ms=1,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
    )
    partition = FakePartition("flights", 0, high_watermark=23)
    partition.log.batches = b"".join(ends(base_offset=3 + index) for index in range(20))
    site.view.held = [partition]
    told = (await site.get(f"/api/v1/live/messages/flights?{query}")).json
    assert (told["records"], told["positions"], told["partitions"][0]["problem"]) == ([], "0:8", "")


async def test_a_batch_that_cannot_be_shown_is_said_and_not_unpacked(site: Site) -> None:
    bomb = held((1, None, b"\0" * (DECOMPRESSED_BYTES_MAX + 1), ()), compression=Compression.ZSTD)
    site.view.held = [bomb]
    told = (await site.get("/api/v1/live/messages/flights")).json
    assert told["records"] == []
    assert "cannot be shown" in told["partitions"][0]["problem"]


async def test_wrong_questions_about_messages_are_refused(site: Site) -> None:
    assert (await site.get("/api/v1/live/messages/flights?offset=x")).status == 400
    assert (await site.get("/api/v1/live/messages/gone")).status == 404
    assert (await site.get("/api/v1/live/nothing")).status == 404
    assert (await site.get(f"/api/v1/live/groups?q={'x' * 1_001}")).status == 400
    assert (await site.get("/api/v1/live/groups", method="POST")).status == 405
    site.view.messages_shown = False
    assert (await site.get("/api/v1/live/messages/flights")).status == 403


async def test_a_feed_tells_at_once_and_again_when_something_has_changed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "INTERVAL_SECONDS", 0.05)
    monkeypatch.setattr(keeping, "FRESH_SECONDS", 0.0)

    def listen() -> list[dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=10)
        connection.request("GET", "/api/v1/live/groups/events")
        response = connection.getresponse()
        assert response.getheader("content-type", "").startswith("text/event-stream")
        found: list[dict[str, Any]] = []
        while len(found) < 2:
            line = response.readline()
            if line.startswith(b"data: "):
                found.append(json.loads(line[6:]))
                site.view.group_list = [a_group()]
        connection.close()
        return found

    before, after = await trio.to_thread.run_sync(listen)
    assert (before["total"], after["total"]) == (0, 1)


async def test_feeds_have_a_number_and_an_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "FEED_SECONDS", 1.0)
    monkeypatch.setattr(feed, "INTERVAL_SECONDS", 0.1)
    answers = []

    async def ask() -> None:
        answers.append((await site.get("/api/v1/live/health/events")).status)

    async with trio.open_nursery() as nursery:
        for _ in range(feed.FEEDS_MAX + 3):
            nursery.start_soon(ask)
    assert sorted(answers) == [200] * feed.FEEDS_MAX + [503] * 3
    assert (await site.get("/api/v1/live/health/events")).status == 200, "they have ended"


async def test_who_closes_makes_room_at_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "FEEDS_MAX", 4)

    def begin_and_leave() -> int:
        with socket.create_connection(("127.0.0.1", site.port), timeout=10) as connection:
            connection.sendall(b"GET /api/v1/live/health/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            return int(connection.recv(100).split()[1])

    for _ in range(3 * feed.FEEDS_MAX):
        assert await trio.to_thread.run_sync(begin_and_leave) == 200
        await trio.testing.wait_all_tasks_blocked(0.01)


async def test_who_asks_for_the_same_at_once_shares_one_view() -> None:
    feeds = feed.Feeds()
    made = 0

    async def make() -> object:
        nonlocal made
        made += 1
        await trio.sleep(0.05)
        return {"made": made}

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(partial(feeds.made, "same", make))
    assert made == 1
    assert await feeds.made("other", make) == b'{"made":2}'


@pytest.mark.parametrize(
    "path",
    [
        "groups",
        "groups?q=group-000&order=name",
        "topics",
        "group?id=group-00000",
        "topic?name=topic-0",
        "health",
        "access",
        "history?kind=topic&name=topic-0",
    ],
)
async def test_very_many_groups_and_topics_are_told_in_a_second_and_hold_nobody_up(
    site: Site, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = (PartitionState(0, 1, 0, (1,), (1,)),)
    topics = [TopicState(f"topic-{each}", UUID(int=each + 1), states) for each in range(1_000)]
    monkeypatch.setattr(site.view, "topics", lambda: topics)
    held_by_name = {each.name: FakePartition(each.name, 0) for each in topics}
    monkeypatch.setattr(site.view, "partition", lambda topic, index: held_by_name.get(topic))
    site.view.group_list = [a_group_with_offsets(each) for each in range(10_000)]
    await site.get("/api/v1/live/health")  # What is imported at the first request is no view's.
    gc.collect()
    gc.freeze()  # What else this process has is no part of a broker.
    with longest_step() as seconds:
        began = time.monotonic()
        answer = await site.get(f"/api/v1/live/{path}")
        took = time.monotonic() - began
    gc.unfreeze()
    assert answer.status == 200
    assert took < 1
    assert seconds() < STEP_SECONDS_MAX
    assert len(answer.body) < 500_000


async def test_a_browser_that_goes_while_it_is_told_is_no_failure() -> None:
    feeds = feed.Feeds()

    async def view() -> object:
        return {}

    async def silence() -> Message:
        await trio.sleep_forever()
        raise AssertionError

    async def gone(message: Message) -> None:
        raise trio.BrokenResourceError

    await feed.FeedResponse(feeds, "any", view)({"type": "http"}, silence, gone)
    assert feeds.open == 0

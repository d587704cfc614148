"""A look at the messages of several partitions: their order, where it goes on, and what it may cost."""

import socket
import threading
from collections.abc import AsyncIterator
from typing import Any, cast
from uuid import UUID

import msgspec
import pytest
import trio

from kohort.broker.http import cluster_merging, pages
from kohort.broker.http.live import messages, reading_records
from kohort.broker.http.live.matching import Match
from kohort.broker.http.live.messages import Searches, TooMany, question_of
from kohort.broker.http.live.reading_records import WORK_SECONDS, Pace, PartitionReading, Share
from kohort.broker.http.questions import Answer
from kohort.broker.http.test_http import FakeLog, FakePartition, FakeView, Site
from kohort.broker.metadata import NO_LEADER, PartitionState, TopicState
from kohort.protocol.records import Record, build_batch

PATH = "/api/v1/live/messages/flights?partition=all"


@pytest.fixture
async def site(nursery: trio.Nursery) -> AsyncIterator[Site]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        view = FakeView()
        nursery.start_soon(pages.serve, view, sock)
        yield Site(view, sock.getsockname()[1])


def a_partition(index: int, *times: int, batch: int = 1) -> FakePartition:
    """Return a partition with a record of each time, from offset 0 on."""
    batches = [
        build_batch(
            [(at, b"k%d" % at, b'{"at": %d}' % at, ()) for at in times[first : first + batch]],
            base_offset=first,
        )
        for first in range(0, len(times), batch)
    ]
    log = FakeLog(0, len(times), batches=b"".join(batches))
    return FakePartition("flights", index, high_watermark=len(times), log=log)


def hold(view: FakeView, monkeypatch: pytest.MonkeyPatch, *partitions: FakePartition, count: int = 0) -> None:
    """Have a broker hold these partitions; it leads the first so many, the others have no leader."""
    view.held = list(partitions)
    led = count or len(partitions)
    states = tuple(
        PartitionState(each.index, 1 if each.index < led else NO_LEADER, 0, (1,), (1,)) for each in partitions
    )
    topic = TopicState("flights", UUID(int=1), states)
    monkeypatch.setattr(view, "topic", lambda name: topic if name == "flights" else None)


def times_of(told: dict[str, Any]) -> list[int]:
    return [each["timestamp_ms"] for each in told["records"]]


async def test_the_newest_of_all_partitions_are_shown_in_the_order_of_their_times(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(site.view, monkeypatch, a_partition(0, 1, 4, 6), a_partition(1, 2, 3, 5))
    told = (await site.get(PATH)).json
    assert times_of(told) == [1, 2, 3, 4, 5, 6]
    assert [(each["partition"], each["offset"]) for each in told["records"][:3]] == [(0, 0), (1, 0), (1, 1)]
    assert (told["positions"], told["is_at_end"], told["searched"]) == ("0:3,1:3", True, 6)
    few = (await site.get(f"{PATH}&count=2")).json
    assert (times_of(few), few["positions"]) == ([5, 6], "0:3,1:3")


async def test_the_first_that_are_found_are_shown_and_the_next_question_goes_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(site.view, monkeypatch, a_partition(0, 1, 4, 6), a_partition(1, 2, 3, 5))
    seen: list[int] = []
    positions = ""
    for _ in range(4):
        told = (await site.get(f"{PATH}&offset=0&count=2{positions}")).json
        seen += times_of(told)
        positions = f"&positions={told['positions']}"
    assert seen == [1, 2, 3, 4, 5, 6]
    assert told["is_at_end"]


async def test_a_partition_that_no_earlier_answer_had_is_searched_from_the_start_of_the_search(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(site.view, monkeypatch, a_partition(0, 1, 4, 6), a_partition(1, 2, 3, 5))
    told = (await site.get(f"{PATH}&offset=1&positions=0:2")).json
    assert (times_of(told), told["positions"]) == ([3, 5, 6], "0:3,1:3")
    told = (await site.get(f"{PATH}&time=5&positions=0:1")).json
    assert times_of(told) == [4, 5, 6], "its leader did not answer before"


async def test_what_is_looked_for_is_found_in_every_partition(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(site.view, monkeypatch, a_partition(0, 1, 4, 6), a_partition(1, 2, 4, 5))
    assert times_of((await site.get(f"{PATH}&key=k4")).json) == [4, 4]
    assert times_of((await site.get(f"{PATH}&where=%24.at%20%3E%3D%205")).json) == [5, 6]
    assert times_of((await site.get(f"{PATH}&q=%22at%22:%201")).json) == [1]
    assert times_of((await site.get(f"{PATH}&time=4")).json) == [4, 4, 5, 6]
    assert times_of((await site.get(f"{PATH}&time=4&key=k5")).json) == [5]
    refused = await site.get(f"{PATH}&where=%3D3")
    assert (refused.status, "is no JSON path" in refused.json["error"]) == (400, True)


async def test_the_end_shows_nothing_and_what_comes_behind_it_is_followed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(site.view, monkeypatch, a_partition(0, 1), a_partition(1))
    told = (await site.get(f"{PATH}&offset=end")).json
    assert (told["records"], told["positions"]) == ([], "0:1,1:0")
    hold(site.view, monkeypatch, a_partition(0, 1, 3), a_partition(1, 2))
    told = (await site.get(f"{PATH}&positions={told['positions']}")).json
    assert (times_of(told), told["positions"]) == ([2, 3], "0:2,1:1")


async def test_a_partition_that_cannot_be_searched_is_named(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(site.view, monkeypatch, a_partition(0, 1), a_partition(1, 2), count=1)
    told = (await site.get(PATH)).json
    assert (times_of(told), told["not_searched"]) == ([1], [1])
    site.view.held.pop(0)
    told = (await site.get(PATH)).json
    assert (times_of(told), sorted(told["not_searched"])) == ([], [0, 1])
    assert (await site.get("/api/v1/live/messages/gone?partition=all")).status == 404


@pytest.mark.parametrize("query", ["positions=x", "positions=0", "offset=middle", "partition=some"])
async def test_what_cannot_be_asked_is_refused(site: Site, query: str) -> None:
    assert (await site.get(f"/api/v1/live/messages/flights?{query}")).status == 400


def test_positions_name_so_many_partitions() -> None:
    many = ",".join(f"{each}:0" for each in range(messages.PARTITIONS_MAX + 1))
    with pytest.raises(ValueError, match="500 partitions"):
        question_of("flights", {"partition": "all", "positions": many})
    with pytest.raises(ValueError, match="characters at most"):
        question_of("flights", {"where": "$.a" + " " * 4_000})
    most = ",".join(f"{each}:{10**12}" for each in range(messages.PARTITIONS_MAX))
    assert len(most) < 12_000, "it finds room in the head of a request"


async def test_every_partition_has_its_part_of_what_a_search_may_cost_and_the_missed_come_first(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "SEARCHED_BYTES_MAX", 600)
    parts = [a_partition(each, *range(100)) for each in range(4)]
    hold(site.view, monkeypatch, *parts)
    positions, reached, asked = "", dict.fromkeys(range(4), 0), 0
    while not all(reached.values()):
        told = (await site.get(f"{PATH}&offset=0&key=none{positions}")).json
        assert told["searched"] < 12
        for each in told["partitions"]:
            reached[each["partition"]] = each["next_offset"]
        positions, asked = f"&positions={told['positions']}", asked + 1
        assert asked < 10, reached
    assert told["records"] == []
    assert not told["is_at_end"]


async def test_a_search_ends_after_a_while_and_goes_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "SEARCH_SECONDS_MAX", 0.0)
    hold(site.view, monkeypatch, a_partition(0, *range(20)), a_partition(1, *range(20)))
    positions, asked, told = "", 0, {"is_at_end": False}
    while not told["is_at_end"]:
        told = (await site.get(f"{PATH}&offset=0&key=none{positions}")).json
        positions, asked = f"&positions={told['positions']}", asked + 1
        assert asked <= 40
    assert asked == 40, "one batch each time"


async def test_a_few_search_at_once_and_others_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    view, searches = FakeView(), Searches()
    hold(view, monkeypatch, a_partition(0, 1))
    may_end = threading.Event()
    monkeypatch.setattr(messages, "_answer", lambda *_: may_end.wait(20))
    asked, refused = question_of("flights", {"partition": "all"}), 0

    async def search() -> None:
        await searches.look(view, asked)

    async with trio.open_nursery() as nursery:
        for _ in range(messages.SEARCHES_MAX + messages.WAITING_MAX):
            nursery.start_soon(search)
        await trio.testing.wait_all_tasks_blocked(0.01)
        for _ in range(3):
            with pytest.raises(TooMany):
                await search()
            refused += 1
        may_end.set()
    assert refused == 3


class Working:
    """A clock that runs while records are matched, each at a tenth of what a thread works without a rest."""

    def __init__(self) -> None:
        self.worked = self.rested = 0.0

    def perf_counter(self) -> float:
        return self.worked + self.rested

    def sleep(self, seconds: float) -> None:
        self.rested += seconds

    def finds(self, record: Record) -> bool:
        self.worked += WORK_SECONDS / 10
        return False


def test_a_search_rests_so_that_the_loop_has_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this thread computes while the other sleeps is most of what it can do alone."""
    working = Working()
    monkeypatch.setattr(reading_records, "time", working)
    reading = PartitionReading(0, a_partition(0, *range(20_000), batch=1_000).log, offset=0, end=20_000)
    reading.run(cast(Match, working), 50, Share(1 << 30, 60), Pace())
    assert reading.searched == 20_000
    assert working.worked == pytest.approx(20_000 * WORK_SECONDS / 10)
    assert working.rested > 3 * working.worked, "it rests longer than it works"


def test_leaders_answers_are_put_together_as_one() -> None:
    def answer(*times: int, partition: int) -> Answer:
        told = messages.told_of(
            [{"partition": partition, "next_offset": 9, "high_watermark": 9, "searched": 5}],
            [{"partition": partition, "offset": each, "timestamp_ms": each} for each in times],
            [7],
        )
        return Answer(200, (), msgspec.json.encode(told))

    told = {1: answer(1, 4, partition=0), 2: answer(2, 3, partition=1)}
    asked = question_of("t", {"partition": "all", "offset": "0", "count": "3", "positions": "0:1,1:2,5:6"})
    found = cluster_merging.live_messages(told, {3: "it is gone"}, asked)
    assert [each["timestamp_ms"] for each in found["records"]] == [1, 2, 3]
    assert found["positions"] == "0:4,1:9,5:6", "what was not shown, and whose leader is silent, comes next"
    assert (found["searched"], found["not_searched"], found["is_at_end"]) == (10, [7], False)
    assert found["unanswered"] == [{"broker": 3, "reason": "it is gone"}]
    newest = cluster_merging.live_messages(told, {}, question_of("t", {"partition": "all", "count": "1"}))
    assert ([each["timestamp_ms"] for each in newest["records"]], newest["is_at_end"]) == ([4], True)
    assert newest["positions"] == "0:9,1:9"

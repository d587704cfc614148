"""The history of a day, lived in simulated time, is told in one page."""

import random
import re
from collections.abc import Iterator
from datetime import datetime

import msgspec
import pytest

from kohort.broker.explain.digest import digest, of_explanations
from kohort.broker.explain.findings import Explanation
from kohort.observe.facts import Facts
from kohort.observe.observer import Observer
from kohort.observe.pages import Pages
from kohort.observe.store import Store
from kohort.observe.test_records import Log, client_of

MIDNIGHT = int(datetime(2026, 11, 27).astimezone().timestamp() * 1_000)
MINUTE, HOUR = 60_000, 3_600_000
PARTITIONS, STUCK = 8, 3
PAGE_LINES = 60


class Day:
    """A group of four applications, whose members commit every ten seconds what they have read."""

    def __init__(self, observer: Observer, midnight_ms: int = MIDNIGHT) -> None:
        self.midnight_ms = midnight_ms
        self.watched = observer.watched
        self.log = Log(Facts(knows_all_groups=True))
        self.watched.records = self.log.records
        self.watched.status.cluster_id = "c"
        self.watched.status.is_caught_up = True
        self.log.now_ms = midnight_ms
        self.number = 0
        self.starts = 0
        self.members: list[str] = []
        self.offsets = [1_000] * PARTITIONS
        self.stuck = -1
        self.store = Store(observer.store_path)

    def rebalance(self) -> dict[str, list[int]]:
        """Have a new generation, in which partitions are dealt out by range."""
        self.number += 1
        owned: dict[str, list[int]] = {each: [] for each in self.members}
        for partition in range(PARTITIONS if self.members else 0):
            owned[self.members[partition * len(self.members) // PARTITIONS]].append(partition)
        self.log.generation(self.number, owned)
        return owned

    def start(self, application: int) -> None:
        """Have an application join."""
        self.starts += 1
        self.members.append(f"billing-{application}-{self.starts:08x}-0000-4000-8000-000000000000")
        self.members.sort()
        self.rebalance()

    def end(self, member_id: str, silent_ms: int) -> None:
        """Have a member gone, of which nothing has been heard for so long."""
        self.read(silent_ms, without=member_id)
        self.members.remove(member_id)
        self.rebalance()

    def owner(self, partition: int) -> str:
        """Return who has a partition."""
        return self.members[partition * len(self.members) // PARTITIONS]

    def read(self, ms: int, without: str = "") -> None:
        """Let time pass. All but one member read and commit."""
        until_ms = self.log.now_ms + ms
        while self.log.now_ms < until_ms:
            self.log.now_ms = min(self.log.now_ms + 10_000, until_ms)
            for partition in range(PARTITIONS if self.members else 0):
                if self.owner(partition) != without:
                    self.offsets[partition] += 0 if partition == self.stuck else 7
                    self.log.commit(partition, self.offsets[partition])
            self.log.records.facts.ends = {"t": {each: end + 50 for each, end in enumerate(self.offsets)}}
        self.log.records.settle(self.log.now_ms)
        self.watched.save(self.store)

    def until(self, at_ms: int) -> None:
        """Let time pass up to a time of the day."""
        self.read(self.midnight_ms + at_ms - self.log.now_ms)


def page(observer: Observer, since_ms: int) -> list[str]:
    answer = Pages(observer, lambda: MIDNIGHT + 24 * HOUR).page(f"/api/v1/groups/g?since_ms={since_ms}")
    assert answer.status == 200
    observed = msgspec.json.decode(answer.body, type=dict[str, msgspec.Raw])["observed"]
    explanations = msgspec.json.decode(observed, type=list[Explanation])
    return [*digest("billing", of_explanations(explanations), since_ms)]


def parts(lines: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for each in [*lines, ""]:
        if each:
            part.append(each)
        elif part:
            yield part
            part = []


def quiet_day(day: Day) -> None:
    for application in range(4):
        day.start(application)
        day.read(4_000)


def deployment(day: Day) -> None:
    for application in range(4):
        (old,) = (each for each in day.members if client_of(each) == f"billing-{application}")
        day.end(old, 0)
        day.read(5_000)
        day.start(application)
        day.read(15_000)


def stormy_day(day: Day, seed: int) -> None:
    """Have a storm at three, a deployment at ten, and one member more for a while each hour from noon on."""
    chance = random.Random(seed)
    quiet_day(day)
    day.until(3 * HOUR)
    day.stuck = STUCK
    for _ in range(30):  # Whoever gets the partition dies of the record in it, and is started again.
        victim = day.owner(STUCK)
        day.end(victim, 45_000 + chance.randrange(3_000))
        day.read(chance.randrange(5_000, 20_000))
        day.start(int(client_of(victim)[-1]))
        day.read(chance.randrange(1_000, 60_000))
    day.stuck = -1
    day.until(10 * HOUR)
    deployment(day)
    for hour in range(12, 20):
        day.until(hour * HOUR)
        day.start(9)
        day.until(hour * HOUR + 20 * MINUTE)
        day.end(next(each for each in day.members if client_of(each) == "billing-9"), 0)
    day.until(24 * HOUR)


@pytest.mark.parametrize("seed", range(5))
def test_a_group_that_stormed_at_three_in_the_morning(observer: Observer, seed: int) -> None:
    day = Day(observer)
    stormy_day(day, seed)
    day.store.close()

    told = page(observer, MIDNIGHT)
    assert len(told) <= PAGE_LINES, "\n".join(told)
    chapters = [*parts(told)]
    assert chapters[0][1].startswith("  Most of it, 2026-11-27 03:0")
    assert chapters[0][1].endswith(f" a record of t-{STUCK} stops its readers (likely).")
    assert "03:00" in chapters[0][2]
    (storm,) = (each for each in chapters if " 03:0" in each[0])
    assert "60 rebalances" in storm[0], "\n".join(told)
    assert f"a record of t-{STUCK} stops its readers" in storm[1], "\n".join(told)
    assert "Cause (likely)" in storm[1]
    assert "    when it was seen last, at 03:" in storm[2]
    assert re.fullmatch(r"    the (\d+) members that were gone in the last .* all owned t-3", storm[3])
    assert "was 8,581 each time; there were records to read up to 8,630" in storm[4]
    assert storm[-1].startswith("  Then, at 03:4")
    assert "the committed offset of t-3 moved on from 8,581 to 8,588: a reader got past" in storm[-1]
    assert sum("a rolling deployment: 4 of 4 members" in line for line in told) == 1
    later = page(observer, MIDNIGHT + 9 * HOUR)
    assert not any("stops its readers" in line for line in later)
    assert any("a rolling deployment" in line for line in later)


def test_a_day_on_which_nothing_happened(observer: Observer) -> None:
    day = Day(observer)
    quiet_day(day)
    day.until(4 * HOUR)
    day.store.close()
    assert page(observer, MIDNIGHT + HOUR)[1:] == ["  Nothing has happened since."]


def test_a_member_that_flaps_all_day_is_told_in_one_page(observer: Observer) -> None:
    day = Day(observer)
    quiet_day(day)
    for minute in range(20, 24 * 60 - 30, 15):  # A process that is killed for its memory, a hundred times.
        day.until(minute * MINUTE)
        day.end(next(each for each in day.members if client_of(each) == "billing-2"), 46_000)
        day.read(20_000)
        day.start(2)
    day.until(24 * HOUR)
    day.store.close()
    told = page(observer, MIDNIGHT)
    assert len(told) <= PAGE_LINES, "\n".join(told)
    assert sum("billing-2" in line for line in told) > 10, "\n".join(told)


def test_a_time_that_is_none_is_refused(observer: Observer) -> None:
    assert Pages(observer).page("/api/v1/groups/g?since_ms=soon").status == 400


def test_a_store_that_cannot_be_read_is_an_answer(observer: Observer) -> None:
    observer.store_path.mkdir()
    answer = Pages(observer).page("/api/v1/groups/g")
    assert (answer.status, b"unable to open" in answer.body) == (503, True)

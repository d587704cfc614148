"""The observer's page in a real browser: a day with a storm, several clusters, and names that are hostile."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.observe.observer import Observer
from kohort.observe.store import Store
from kohort.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions
from kohort.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from tests.page.browser import Browser, find_chromium
from tests.page.hostile import EVIL, unharmed
from tests.page.observed import first_runs, live_a_day, observer, served

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine: install Debian's package `chromium`"
)
SLOW = """() => {
  const { fetch, setTimeout, setInterval } = window;
  window.setTimeout = (run, ms) => setTimeout(run, ms / 50);
  window.setInterval = (run, ms) => setInterval(run, ms / 50);
  window.asked = 0;
  const answered = new Promise((resolve) => { window.answer = resolve; });
  window.fetch = (url) => { window.asked += 1; return answered.then(() => fetch(url)); };
  setTimeout(() => { window.waited = true; }, 1000);
}"""
"""Has time between questions pass 50 times as fast, and holds answers back until `answer` is called."""
STORY = "document.getElementById('story')?.innerText ?? ''"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert CHROMIUM is not None
    with Browser(CHROMIUM, tmp_path_factory.mktemp("chromium")) as found:
        found.resize(1280, 900)
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    """A browser in which nothing is harmed, refused or asked of others, whatever is done with it."""
    with unharmed(browser):
        yield browser
    hosts = {url.split("/")[2].partition(":")[0] for url in browser.requested if url.startswith("http")}
    assert hosts <= {"127.0.0.1"}


def write_hostile(watching: Observer) -> None:
    """Have a group whose every name is markup lose a member, and break the rights of the observer."""
    watched = watching.watched
    watched.status.cluster_id = EVIL
    watched.status.is_caught_up = True
    watched.status.refused = {EVIL: EVIL}
    for number, names in enumerate([(EVIL,), (EVIL, f"{EVIL}2"), (EVIL,)]):
        subscription = ConsumerProtocolSubscription(topics=(EVIL,)).encode_versioned()
        owned = TopicPartitions(topic=EVIL, partitions=(0, 1))
        members = tuple(
            MemberMetadata(
                member_id=each,
                group_instance_id=None,
                client_id=each,
                client_host=f"/{EVIL}",
                rebalance_timeout=300_000,
                session_timeout=45_000,
                subscription=subscription,
                assignment=ConsumerProtocolAssignment(assigned_partitions=(owned,)).encode_versioned(),
            )
            for each in names
        )
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=number + 1,
            protocol=EVIL,
            leader=EVIL,
            current_state_timestamp=1_000 * number,
            members=members,
        )
        key = encode_key(GroupMetadataKey(group=EVIL))
        watched.records.take(key, encode_value(value), 1_800_000_000_000 + 1_000 * number)
    commit = OffsetCommitValue(offset=5, metadata=EVIL, commit_timestamp=1_800_000_000_000)
    place = encode_key(OffsetCommitKey(group=EVIL, topic=EVIL, partition=0))
    watched.records.take(place, encode_value(commit), 1_800_000_005_000)
    watched.records.settle(1_800_000_100_000)
    store = Store(watching.store_path)
    watched.save(store)
    store.close()


def test_the_cause_of_a_storm_is_found_from_the_page_alone(page: Browser, tmp_path: Path) -> None:
    watching = observer(tmp_path)
    live_a_day(watching)
    with served([watching]) as address:
        page.open(address)
        page.until("document.querySelectorAll('main tbody tr').length === 1", "the group is listed")
        assert "STALL" in page.text
        page.until("document.getElementById('link').textContent === 'live'", "it is up to date")
        page.run("document.querySelector('main tbody a').click()")
        page.until("document.querySelector('svg.timeline') !== null", "the group is shown")
        assert "a record of t-3 stops its readers" in page.text
        assert "60 rebalances (71 % of all)" in page.text
        assert "the committed offset of t-3 moved on from 8,581 to 8,588" in page.text
        assert page.run(STORY).strip().splitlines()[-1].startswith("Times in this text: UTC")
        assert page.run("document.querySelectorAll('svg.timeline .storming').length") >= 1
        assert "every 10.0 s" in page.text, "it says how members commit"
        assert "cannot be known who leads the group" in page.text
        before = page.run(STORY)
        page.run("document.querySelector('svg.timeline .mark').focus()")
        page.press("Enter")
        page.until("location.hash.includes('rebalance=0')", "a bar is chosen by the keyboard")
        page.until(f"{STORY} !== {before!r}", "its story is told")
        page.resize(390, 900)
        narrow = "document.querySelector('svg.timeline').viewBox.baseVal.width === 400"
        page.until(narrow, "the timeline is drawn for a phone")
        assert "every 10.0 s" in page.text
        page.resize(1280, 900)
        page.until(f"!({narrow})", "it is drawn for a wide window again")
        select = "document.querySelector('[aria-label=\"History shown\"]')"
        assert page.run(f"{select}.value") == "24"
        page.run(f"{select}.value = '1'; {select}.dispatchEvent(new Event('change'))")
        page.until("document.querySelector('main').innerText.includes('Nothing is known')", "an hour ago")
        page.run("document.activeElement.blur()")
        page.press("b")
        page.until("document.querySelector('main').innerText.includes('offline: no leader')", "the cluster")
        assert "kafka-1:9092 controller" in page.text
        page.press("t")  # There are no topics.
        assert page.run("location.hash") == "#/health"


def test_the_page_asks_again_only_after_the_answer(page: Browser, tmp_path: Path) -> None:
    watching = observer(tmp_path)
    live_a_day(watching)
    with served([watching]) as address:
        page.open(address)
        page.until("document.querySelectorAll('main tbody tr').length === 1", "the group is listed")
        page.run(f"({SLOW})()")
        page.run("location.hash = '#/health'")
        page.until("window.waited === true", "many times the time between two questions is over")
        assert page.run("window.asked") == 1
        page.run("window.answer()")
        page.until("window.asked > 1", "it asks again")
        page.open("about:blank")


def test_a_cluster_is_chosen_among_several_and_says_what_to_do_next(page: Browser, tmp_path: Path) -> None:
    with served(first_runs(tmp_path)) as address:
        page.open(address)
        page.until("document.querySelectorAll('main tbody tr').length === 4", "all are listed")
        assert "connection refused" in page.text
        page.run(
            "[...document.querySelectorAll('main a')].find((a) => a.textContent === 'forbidden').click()"
        )
        page.until("document.querySelector('.start') !== null", "what to do is told")
        command = "kohort acls add --principal User:OBSERVER --operation READ --topic __consumer_offsets"
        assert command in page.text
        assert page.run("document.querySelector('nav [aria-current=page]').textContent") == "forbidden"
        for name, text in {
            "none": "no group is in it",
            "gone": "--command-config client.properties",
            "behind": "1,234,567 records to go",
        }.items():
            page.open(f"{address}/{name}/")
            page.until(f"document.querySelector('main')?.innerText?.includes({text!r})", name)


def test_hostile_names_are_shown_and_not_obeyed(page: Browser, tmp_path: Path) -> None:
    watching = observer(tmp_path)
    write_hostile(watching)
    with served([watching]) as address:
        page.open(address)
        page.until("document.querySelectorAll('main tbody tr').length === 1", "the group is listed")
        assert "<img src=x" in page.text
        page.run("document.querySelector('main tbody a').click()")
        page.until("document.querySelector('svg.timeline') !== null", "the group is shown")
        assert "Cause (" in page.text
        assert r"\u202e\u001b[2J" in page.text
        page.press("b")
        page.until("document.querySelector('main h2') !== null", "the cluster is shown")


def test_a_script_gets_json_and_a_browser_the_page(tmp_path: Path) -> None:
    with served(first_runs(tmp_path)) as address:
        for path, accept, kind in [
            ("/", "text/html", "text/html; charset=utf-8"),
            ("/none/", "text/html", "text/html; charset=utf-8"),
            ("/none", "text/html", "text/html; charset=utf-8"),
            ("/", "*/*", "application/json"),
            ("/none/api/v1/live/health", "text/html", "application/json"),
        ]:
            request = urllib.request.Request(f"{address}{path}", headers={"accept": accept})
            with urllib.request.urlopen(request, timeout=10) as answer:
                assert answer.headers["content-type"] == kind, path

"""The live page in a real browser, over a real broker in which everything has a hostile name."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from kohort.client import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until
from tests.page.browser import Browser, find_chromium
from tests.page.hostile import EVIL, MARKUP, unharmed

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine: install Debian's package `chromium`"
)

LITERALS = ('"id": 12345678901234567890', '"rate": 1.0', '"most": 1e400', '"twice": 1', '"twice": 2')
"""What JavaScript rounds, shortens, loses or merges where it reads JSON and writes it again."""
VALUE = f'{{"html": {json.dumps(MARKUP)}, "order": 7, "none": [], {", ".join(LITERALS)}}}'.encode()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("page"), "group.initial.rebalance.delay.ms=0")
    process.start()
    with Admin(bootstrap_servers=process.bootstrap) as admin:
        admin.create_topics(NewTopic("orders", partitions=3), NewTopic("__hidden", partitions=1))
        admin.alter_group_offsets("calm", {TopicPartition("orders", 0): OffsetAndMetadata(0)})
    with Producer(bootstrap_servers=process.bootstrap) as producer:
        headers = [("trace<b>", MARKUP.encode()), ("n", None)]
        producer.send("orders", VALUE, key=EVIL.encode(), partition=0, headers=headers)
        producer.send("orders", b"\xff\x00\x01", partition=0)
        producer.send("orders", None, key=b"gone", partition=0)
        producer.send("orders", MARKUP.encode(), partition=0)
    storm(process.bootstrap)
    yield process
    process.stop()


def storm(bootstrap: str) -> None:
    """Have members come and go in a group, all of whose names are hostile."""
    options = {"bootstrap_servers": bootstrap, "group_id": EVIL, "auto_offset_reset": "earliest"}
    with Consumer("orders", client_id=f"stays {EVIL}", heartbeat_interval_ms=100, **options) as stays:
        for number in range(3):
            with Consumer("orders", client_id=f"goes {number}", heartbeat_interval_ms=100, **options) as goes:
                wait_until(
                    lambda goes=goes: (
                        stays.poll(timeout_ms=20),
                        goes.poll(timeout_ms=20),
                        goes.assignment(),
                    )[2],
                    "the newcomer reads",
                )
            wait_until(
                lambda: (stays.poll(timeout_ms=20), len(stays.assignment()) == 3)[1], "it has all back"
            )


@pytest.fixture(scope="module")
def browser(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert CHROMIUM is not None
    with Browser(CHROMIUM, tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture
def page(browser: Browser, broker: BrokerProcess) -> Iterator[Browser]:
    """The list of groups; whatever is done with it, nothing is harmed, refused or asked of others."""
    with unharmed(browser):
        browser.resize(1200, 900)
        browser.open(f"http://{broker.http}/")
        browser.until("document.querySelectorAll('main tbody tr').length >= 2", "the groups are listed")
        yield browser
    assert {url.split("/")[2] for url in browser.requested if url.startswith("http")} <= {broker.http}
    assert [url for url in browser.requested if not url.startswith(("http://", "about:"))] == []


def test_hostile_names_are_shown_and_not_obeyed(page: Browser) -> None:
    assert MARKUP in page.text
    assert r"\u202e\u001b[2J" in page.text
    assert "calm" in page.text
    page.until("document.getElementById('link').textContent === 'live'", "the feed is open")


def open_group(page: Browser) -> None:
    page.run("[...document.querySelectorAll('main a')].find((a) => a.textContent.startsWith('<img')).click()")
    page.until("document.querySelector('svg.timeline') !== null", "the group is shown")


def test_a_storm_is_seen_and_each_rebalance_told_in_words(page: Browser) -> None:
    assert "storm: " in page.text
    open_group(page)
    assert page.run("document.querySelectorAll('svg.timeline .mark').length") >= 6
    assert page.run("document.querySelectorAll('svg.timeline .storming').length") == 1
    assert page.run("document.querySelectorAll('svg.timeline .wait, svg.timeline .vain').length") >= 3
    before = page.run("document.getElementById('story').innerText")
    assert "Cause: stays <img" in before
    page.run("document.querySelector('svg.timeline .mark').focus()")
    page.press("Enter")
    page.until("location.hash.includes('rebalance=0')", "a bar is chosen by the keyboard")
    first = page.until("document.getElementById('story')?.innerText", "its story is told")
    assert first != before
    assert "generation 1" in first
    assert "<b>" not in page.run("document.querySelector('main').innerHTML").replace("&lt;b&gt;", "")


def test_topics_partitions_settings_and_messages(page: Browser) -> None:
    page.press("t")
    page.until("location.hash === '#/topics'", "a key leads to the topics")
    page.until("[...document.querySelectorAll('main a')].some((a) => a.textContent === 'orders')", "listed")
    assert "__consumer_offsets" not in page.text
    page.run("[...document.querySelectorAll('main a')].find((a) => a.textContent === 'orders').click()")
    rows = "document.querySelectorAll('#messages tbody tr:not([hidden])')"
    page.until(f"{rows}.length === 4", "four messages are shown")
    assert page.run(f"Math.max(...[...{rows}].map((row) => row.getBoundingClientRect().height))") < 50
    assert page.run("document.querySelectorAll('#messages select').length") == 0
    texts = page.run(f"[...{rows}].map((row) => row.cells[5].innerText)")
    assert '"order": 7' in texts[0]
    assert "ff 00 01" in texts[1], "what is no text is shown in digits"
    assert texts[2] == "null"
    assert MARKUP in texts[3]
    assert MARKUP in page.run(f"{rows}[0].cells[4].innerText")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", page.run(f"{rows}[0].cells[3].innerText"))
    page.run(f"{rows}[0].querySelector('button').click()")
    whole = page.run("document.querySelector('#messages .record').innerText")
    assert '\n  "order": 7,\n  "none": [],\n' in whole, "JSON is laid out"
    for literal in LITERALS:
        assert f"\n  {literal}" in whole, "numbers and names stay as they were written"
    assert "trace<b>" in whole
    set_field(page, "Shown as", "hex")
    page.until(f"{rows}[0]?.cells[5].innerText.startsWith('7b 22 68')", "all are hexadecimal digits")
    set_field(page, "contains", "img src")
    page.until(f"{rows}.length === 2", "those are left that contain it")
    page.until("document.getElementById('messages').innerText.includes('2 records of 4 searched')", "told")
    set_field(page, "contains", "")
    set_field(page, "from offset", "2")
    page.until(f"{rows}.length === 2 && {rows}[0].cells[2].innerText === '2'", "shown from an offset on")
    set_field(page, "from time (UTC)", "2001-01-01 00:00:00")
    page.until(f"{rows}.length === 4", "shown from a time on")
    set_field(page, "from time (UTC)", "2199-01-01")
    page.until("document.getElementById('messages').innerText.includes('no such record')", "none is as new")
    set_field(page, "from time (UTC)", "noon")
    page.until("document.getElementById('messages').innerText.includes('noon is no time')", "it is said")
    assert "Nothing is set for this topic." in page.text
    assert "retention.ms" in page.run("document.querySelector('details').textContent")


ROWS = "document.querySelectorAll('#messages tbody tr:not([hidden])')"


def open_topic(page: Browser, broker: BrokerProcess, query: str) -> None:
    page.open("about:blank")
    page.open(f"http://{broker.http}/#/topic?name=orders{query}")


def test_messages_of_all_partitions_are_found_by_a_link(page: Browser, broker: BrokerProcess) -> None:
    open_topic(page, broker, "&where=" + quote("$.order = 7"))
    page.until(f"{ROWS}.length === 1", "one has it in its JSON")
    assert page.run("document.querySelector('[aria-label=\"JSON path\"]').value") == "$.order = 7"
    open_topic(page, broker, "&key=gone")
    page.until(f"{ROWS}.length === 1 && {ROWS}[0].cells[5].innerText === 'null'", "one has this key")
    assert page.run(f"{ROWS}[0].cells[1].innerText") == "0", "the partition is told"
    open_topic(page, broker, "&partition=2")
    page.until("document.getElementById('messages')?.innerText.includes('no such record')", "none there")
    set_field(page, "JSON path", "[")
    page.until("document.getElementById('messages')?.innerText.includes('is no JSON path')", "it is said")
    page.complaints.clear()  # The browser notes the refusal.


def test_new_messages_are_followed_and_what_is_unfolded_stays(page: Browser, broker: BrokerProcess) -> None:
    open_topic(page, broker, "&follow=1&key=followed")
    page.until("document.getElementById('messages')?.innerText.includes('Following')", "it follows")
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(3):
            producer.send("orders", b"%d" % number, key=b"followed", partition=1 + number % 2)
            producer.send("orders", b"another", key=b"not followed", partition=1)
    page.until(f"{ROWS}.length === 3", "those that are looked for come by themselves")
    values = f"[...{ROWS}].map((row) => row.cells[5].innerText)"
    assert page.run(f"{values}[0]") == "2" or page.run(f"{values}.includes('2')")
    page.run(f"{ROWS}[0].querySelector('button').click()")
    page.run("window.unfolded = document.querySelector('#messages .record')")
    page.until(
        "document.querySelector('main tbody tr').innerText.includes('4') && window.unfolded.isConnected",
        "the partitions are drawn anew around it",
    )
    assert page.run("document.querySelector('#messages .record') === window.unfolded")


def set_field(page: Browser, title: str, value: str) -> None:
    page.run(
        f"""(() => {{
          const field = document.querySelector('[aria-label="{title}"]');
          field.value = '{value}';
          field.dispatchEvent(new Event('change'));
        }})()"""
    )


def test_brokers_and_health(page: Browser) -> None:
    page.press("b")
    page.until(
        "document.querySelector('main').innerText.includes('Ready: serving all requests')", "health is shown"
    )
    assert "log cleaner" not in page.text, "the background tasks are folded"
    page.run("document.querySelector('#tasks summary').click()")
    assert "log cleaner" in page.text
    cells = page.run("[...document.querySelectorAll('main tbody tr')[0].cells].map((each) => each.innerText)")
    assert "controller" in cells[1]
    assert cells[3] == f"{cells[2]} of {cells[2]}", "a broker alone leads all that it has, in sync"


def test_a_partition_that_is_offline_and_lacks_replicas_is_one_problem(
    page: Browser, broker: BrokerProcess
) -> None:
    page.open(f"http://{broker.http}/#/health")
    page.until("document.querySelector('main').innerText.includes('Ready')", "health is shown")
    text = """(async () => {
      const { healthView } = await import("/page/cluster.js");
      const told = await (await fetch("/api/v1/live/health")).json();
      const problem = { topic: "t", partition: 0, is_offline: true, leader: -1,
        replicas: [1, 2], in_sync: [1] };
      Object.assign(told.cluster, { offline: OFFLINE, under_replicated: 1, problems: [problem] });
      return healthView(told).flat(Infinity).filter((each) => each).map((each) => each.textContent).join(" ");
    })()"""
    assert "are shown" not in page.run(text.replace("OFFLINE", "1"))
    assert "The first 1 are shown" in page.run(text.replace("OFFLINE", "2"))


def test_the_lag_of_a_group_is_drawn_with_its_rebalances(page: Browser) -> None:
    open_group(page)
    page.until("document.querySelector('figure.chart polyline') !== null", "two looks make a chart")
    assert (
        page.run("document.querySelector('figure.chart polyline').getAttribute('points').split(' ').length")
        >= 2
    )
    assert "records." in page.run("document.querySelector('figure.chart figcaption').innerText")


def test_what_happens_is_seen_without_a_reload(page: Browser, broker: BrokerProcess) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets("newcomer", {TopicPartition("orders", 0): OffsetAndMetadata(1)})
    page.until("document.querySelector('main').innerText.includes('newcomer')", "the new group is listed")


def test_groups_are_searched_and_the_field_keeps_its_focus(page: Browser) -> None:
    page.press("/")
    assert page.run("document.activeElement.id") == "search"
    for key in "calm":
        page.press(key)
    page.until("document.querySelectorAll('main tbody tr').length === 1", "one group is left")
    assert page.run("[document.activeElement.id, document.activeElement.value]") == ["search", "calm"]


@pytest.mark.parametrize("is_dark", [False, True])
def test_it_fits_a_phone_in_light_and_dark(page: Browser, is_dark: bool, tmp_path: Path) -> None:
    page.resize(360, 740, is_dark=is_dark)
    assert page.run("document.documentElement.scrollWidth") <= 360
    seen = "[...document.querySelectorAll('main th')].filter((each) => each.offsetWidth)"
    assert page.run(f"{seen}.map((each) => each.innerText)") == ["Group", "Lag", "Trend", "Verdict"]
    right = f"Math.max(...{seen}.map((each) => each.getBoundingClientRect().right))"
    assert page.run(right) <= 360, "no column is out of sight"
    heights = "[...document.querySelectorAll('main td .name')].map((each) => each.offsetHeight)"
    assert max(page.run(heights)) < 30, "a name stands in one line"
    open_group(page)
    assert page.run("document.documentElement.scrollWidth") <= 360
    assert page.run("document.querySelector('svg.timeline').getBoundingClientRect().width") <= 360
    letters = page.run("document.querySelector('svg.timeline text').getBoundingClientRect().height")
    assert letters > 8, "a picture that is shrunk to a phone's width cannot be read"
    back = page.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, back[4:-1].split(","))) < 200) == is_dark
    assert page.picture().startswith(b"\x89PNG")


def test_a_page_of_another_name_is_not_served(broker: BrokerProcess) -> None:
    request = urllib.request.Request(
        f"http://{broker.http}/", headers={"Host": "evil.example", "Accept": "text/html"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=20)
    assert refused.value.code == 421

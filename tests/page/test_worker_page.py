"""The page of workers in a real browser: of real processes, and of one whose every text is hostile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import Metric

from kohort.cli.status_server import StatusServer
from kohort.cli.worker_server import _Pages
from kohort.client import Admin, NewTopic, Producer
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until
from tests.page.browser import Browser, find_chromium
from tests.page.hostile import EVIL, unharmed
from tests.ports import free_port
from tests.queues.service import http_double

ROOT = Path(__file__).parents[2]
CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine: install Debian's package `chromium`"
)
FORWARD_FILE = """\
bootstrap_servers = "{bootstrap}"

[[forward]]
name = "shop"
topic = "orders"
url = "{url}"
session_timeout_ms = 6000
delay_ms = 3600000

[[forward]]
name = "post"
topic = "letters"
url = "{url}"
session_timeout_ms = 6000

[[forward.route]]
name = "abroad"
when = [{{ header = "country" }}]
url = "{url}"
rate_max = 50.0
"""


def told(address: str) -> dict[str, Any]:
    """Return what a worker says of itself; nothing while it does not serve."""
    try:
        with urllib.request.urlopen(f"http://{address}/api/v1/worker", timeout=10) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found
    except OSError:
        return {}


def is_ready(address: str) -> bool:
    return bool(told(address).get("ready"))


class Workers:
    """A process of each kind, by its role, and where it serves."""

    def __init__(self, bootstrap: str, folder: Path, service: str) -> None:
        file = folder / "forward.toml"
        file.write_text(FORWARD_FILE.format(bootstrap=bootstrap, url=service))
        call = ("--call", "tests.queues.region_process:Sum", "--topic", "numbers")
        member = ("region", "run", "sums", "a", *call, "-b", bootstrap)
        self.commands = {
            "tracker": ("queue", "track", "orders", "-b", bootstrap),
            "worker": ("queue", "run", "orders", "-b", bootstrap, "--workers", "3", "--", "sleep", "1000"),
            "forward": ("forward", "--config", str(file)),
            "coordinator": (
                *("region", "coordinate", "sums", "--members", "1"),
                *("--period-ms", "500", "-b", bootstrap),
            ),
            "member": member,
        }
        self.addresses = {role: f"127.0.0.1:{free_port()}" for role in self.commands}
        self._log = folder / "workers.log"
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        for role, command in self.commands.items():
            at = ("--http", self.addresses[role])
            split = command.index("--") if "--" in command else len(command)
            words = [sys.executable, "-m", "kohort.cli", *command[:split], *at, *command[split:]]
            with self._log.open("ab") as log:
                self._processes.append(
                    subprocess.Popen(words, stderr=log, stdout=log, cwd=ROOT, start_new_session=True)
                )
        for role, address in self.addresses.items():
            wait_until(
                partial(is_ready, address),
                f"{role} is ready: {self._log.read_text()}",
                60,
            )

    def stop(self) -> None:
        for each in self._processes:
            os.killpg(each.pid, signal.SIGKILL)  # A worker that is killed leaves its commands behind.
            each.wait(20)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    with ExitStack() as stack:
        broker = BrokerProcess(tmp_path_factory.mktemp("broker"), "group.initial.rebalance.delay.ms=0")
        broker.start()
        stack.callback(broker.stop)
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(*(NewTopic(each, partitions=2) for each in ("orders", "letters", "numbers")))
        service = stack.enter_context(http_double())
        found = Workers(broker.bootstrap, tmp_path_factory.mktemp("workers"), service.url)
        stack.callback(found.stop)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(20):
                producer.send("orders", b"%d" % number, partition=number % 2)
                producer.send("numbers", b"%d" % number, partition=number % 2)
                producer.send("letters", b"ok", partition=0, headers=[("country", b"de")])
        found.start()
        yield found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert CHROMIUM is not None
    with Browser(CHROMIUM, tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    with unharmed(browser):
        browser.resize(1200, 900)
        yield browser
    hosts = {url.split("/")[2] for url in browser.requested if url.startswith("http")}
    assert len(hosts) == 1, "it asks nobody else"


def facts(page: Browser) -> dict[str, str]:
    """Return what the page's first list of facts says."""
    pairs = "[...document.querySelectorAll('main dl.facts')[0].children]"
    found: dict[str, str] = page.run(
        f"Object.fromEntries({pairs}.map((each) => [each.children[0].innerText, each.children[1].innerText]))"
    )
    return found


def open_page(page: Browser, address: str) -> None:
    page.open(f"http://{address}/")
    page.until("document.getElementById('link')?.textContent === 'live'", "the page has asked")


def test_a_tracker_shows_markers_in_flight_and_the_oldest(page: Browser, workers: Workers) -> None:
    address = workers.addresses["tracker"]
    wait_until(lambda: told(address)["open"] == 20, "all records are taken")
    open_page(page, address)
    page.until("document.querySelector('main dd')?.innerText.startsWith('20')", "20 are in flight")
    found = facts(page)
    assert found["Overdue"] == "0"
    assert found["Oldest unacknowledged"].endswith((" s", " min", " ms"))
    assert found["Redelivered"].startswith("0")
    assert found["Dead letters"] == "0"
    assert found["Delivered again after"] == "90 s"
    rows = page.run(
        "[...document.querySelectorAll('main tbody tr')].map((row) => row.innerText.split('\\t').slice(0, 2))"
    )
    assert rows == [["0", "10"], ["1", "10"]]
    assert "ready" in page.text


def test_a_queues_worker_shows_what_it_works_on(page: Browser, workers: Workers) -> None:
    open_page(page, workers.addresses["worker"])
    page.until("document.querySelector('main dd')?.innerText === '3 of 3'", "three are under way")
    assert facts(page)["Partitions"] == "0, 1"
    assert int(facts(page)["Taken, not begun"]) > 0


def test_a_proxy_shows_routes_rates_circuits_and_what_is_delayed(page: Browser, workers: Workers) -> None:
    address = workers.addresses["forward"]

    def is_settled() -> bool:
        shop, post = told(address)["destinations"]
        return bool(shop["delayed"] == 20 and post["counts"].get("done") == 20)

    wait_until(is_settled, "records of shop wait, those of post are pushed")
    open_page(page, address)
    page.until("document.querySelectorAll('main tbody tr').length === 3", "all routes are listed")
    rows = page.run(
        "[...document.querySelectorAll('main tbody tr')].map((row) => row.innerText.split('\\t'))"
    )
    shop, post, abroad = rows
    assert (shop[0], shop[1], shop[5], shop[6]) == ("no route", "closed", "20", "20")
    assert post[0] == "no route"
    assert (abroad[0], abroad[1], abroad[3], abroad[5]) == ("abroad", "closed", "50/s", "0")
    assert facts(page)["Delayed"] == "20"
    page.until(
        "[...document.querySelectorAll('main tbody td')].some((each) => each.innerText === '0/s')", "rates"
    )


@pytest.mark.parametrize("role", ["member", "coordinator"])
def test_a_region_shows_its_members_resets_and_checkpoints(
    page: Browser, workers: Workers, role: str
) -> None:
    address = workers.addresses[role]
    wait_until(lambda: told(address).get("checkpoint"), "there is a checkpoint")
    open_page(page, address)
    page.until("document.querySelectorAll('main tbody tr').length === 1", "the member is listed")
    found = facts(page)
    assert " ago" in found["Last checkpoint"]
    assert found["Resets"] == "0"
    row = page.run("document.querySelector('main tbody tr').innerText.split('\\t')")
    assert row[0] == "a"
    assert row[1] in {"polling", "drained"}
    assert row[2] == "done"
    assert found["This member" if role == "member" else "This coordinator"] in {
        "polling",
        "drained",
        "decides",
    }


@pytest.mark.parametrize("is_dark", [False, True])
@pytest.mark.parametrize("role", ["tracker", "worker", "forward", "coordinator", "member"])
def test_it_fits_a_phone_in_light_and_dark(page: Browser, workers: Workers, role: str, is_dark: bool) -> None:
    page.resize(360, 740, is_dark=is_dark)
    open_page(page, workers.addresses[role])
    page.until("document.querySelector('main h1') !== null", "it is drawn")
    assert page.run("document.documentElement.scrollWidth") <= 360
    back = page.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, back[4:-1].split(","))) < 200) == is_dark


class Hostile:
    """A worker that says the same as another one, with other texts: whatever could stand there."""

    is_ready = True

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.kind: str = said["kind"]
        self._said: dict[str, object] = _with_evil(said)

    def status(self) -> Mapping[str, object]:
        return self._said

    def metrics(self) -> Iterable[Metric]:
        return ()


def _with_evil(said: Any) -> Any:
    if isinstance(said, dict):
        kept = ("kind", "role")
        return {name: value if name in kept else _with_evil(value) for name, value in said.items()}
    if isinstance(said, list):
        return [_with_evil(each) for each in said]
    return EVIL if isinstance(said, str) else said


@pytest.mark.parametrize("role", ["tracker", "worker", "forward", "coordinator", "member"])
def test_hostile_texts_are_shown_and_not_obeyed(page: Browser, workers: Workers, role: str) -> None:
    said = told(workers.addresses[role])
    server = StatusServer("127.0.0.1:0", _Pages(Hostile(said), lambda function: function()).page)
    try:
        host, port = server.server_address[:2]
        open_page(page, f"{host!s}:{port}")
        page.until("document.querySelector('main h1') !== null", "it is drawn")
        assert "<script>window.harmed=1</script>" in page.text
        assert r"\u202e\u001b[2J" in page.text
    finally:
        server.close()


def test_a_process_that_is_gone_is_said_to_be(browser: Browser, workers: Workers) -> None:
    said = told(workers.addresses["worker"])
    server = StatusServer("127.0.0.1:0", _Pages(Hostile(said), lambda function: function()).page)
    host, port = server.server_address[:2]
    open_page(browser, f"{host!s}:{port}")
    server.close()
    browser.until("document.getElementById('link').className === 'lost'", "it is said")
    assert "does not answer" in browser.text

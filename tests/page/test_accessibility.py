"""No view of the live page keeps anybody out: axe-core over each, wide and on a phone, light and dark.

The page is that of a broker, and that of an observer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from kohort.client import Producer, ShareConsumer
from kohort.testing import Broker
from tests.interop.threads import meanwhile
from tests.page.axe import NoAxe, axe_script, violations
from tests.page.browser import Browser, find_chromium
from tests.page.observed import first_runs, live_a_day, observer, served
from tests.page.pictures import busy, storm
from tests.repetitions import repetitions

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine: install Debian's package `chromium`"
)

SETTINGS = {"group.initial.rebalance.delay.ms": 100, "kohort.lag.interval.ms": 1000}
USED = {
    "groups": ("#/groups", "document.querySelectorAll('main tbody tr').length >= 3"),
    "groups, none found": ("#/groups?q=nothing", "document.querySelector('main .empty') !== null"),
    "group": ("#/group?id=billing", "document.querySelector('figure.chart polyline') !== null"),
    "group, its first rebalance": (
        "#/group?id=billing&rebalance=0&span=5",
        "document.querySelector('figure.chart polyline') !== null",
    ),
    "share group": ("#/group?id=workers", "document.querySelector('main')?.innerText?.includes('In hands')"),
    "no such group": ("#/group?id=nobody", "document.querySelector('main .bad') !== null"),
    "topics": ("#/topics?internal=1", "document.querySelectorAll('main tbody tr').length >= 2"),
    "topic": ("#/topic?name=orders", "document.querySelectorAll('#messages tbody tr').length > 0"),
    "topic, followed": (
        "#/topic?name=orders&follow=1&form=hex",
        "document.querySelectorAll('#messages tbody tr').length > 0",
    ),
    "topic, nothing found": (
        "#/topic?name=orders&key=nobody",
        "document.querySelector('#messages .empty') !== null",
    ),
    "cluster": ("#/health", "document.querySelector('main')?.innerText?.includes('Ready')"),
    "transactions": ("#/transactions", "document.querySelectorAll('main tbody tr').length > 0"),
    "access": ("#/access", "document.querySelector('main h2') !== null"),
}
UNUSED = {
    "first run": ("#/groups", "document.querySelector('.start pre') !== null"),
    "topics": ("#/topics", "document.querySelector('main .empty') !== null"),
    "cluster": ("#/health", "document.querySelector('main')?.innerText?.includes('Ready')"),
    "transactions": ("#/transactions", "document.querySelector('main .empty') !== null"),
}
OBSERVED = {
    "groups": ("#/groups", "document.querySelectorAll('main tbody tr').length === 1"),
    "groups, none found": ("#/groups?q=nothing", "document.querySelector('main .empty') !== null"),
    "group": ("#/group?id=g", "document.querySelector('figure.chart polyline') !== null"),
    "group, one event": (
        "#/group?id=g&rebalance=0&hours=168",
        "document.querySelector('figure.chart polyline') !== null",
    ),
    "group, a quiet hour": (
        "#/group?id=g&hours=1",
        "document.querySelector('main')?.innerText?.includes('Nothing is known to have happened')",
    ),
    "no such group": ("#/group?id=nobody", "document.querySelector('main .bad') !== null"),
    "cluster": ("#/health", "document.querySelector('main')?.innerText?.includes('offline: no leader')"),
}
CLUSTERS = {
    "clusters": ("", "document.querySelectorAll('main tbody tr').length === 4"),
    "no group yet": ("none/", "document.querySelector('.start pre') !== null"),
    "no answer": ("gone/", "document.querySelector('.start .bad') !== null"),
    "no rights": ("forbidden/", "document.querySelector('.start .warn') !== null"),
    "no rights, cluster": ("forbidden/#/health", "document.querySelector('main .notice pre') !== null"),
    "still reading": ("behind/", "document.querySelector('.start') !== null"),
}
WINDOWS = [(1280, False), (390, True), (1280, True), (390, False)][: repetitions(2, by_night=4)]
"""The width, and whether it is dark: by day one of each."""


@pytest.fixture(scope="module")
def script() -> str:
    try:
        return axe_script()
    except NoAxe as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert CHROMIUM is not None
    with Browser(CHROMIUM, tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture(scope="module")
def used() -> Iterator[Broker]:
    """A broker with groups of two kinds, one of them stormy, and an open transaction."""
    topics = {"orders": 6, "payments": 3}
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(SETTINGS, topics=topics, http=True))
        stack.enter_context(busy(broker))
        storm(broker)
        producer = stack.enter_context(
            Producer(bootstrap_servers=broker.bootstrap, transactional_id="payments-1")
        )
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("payments", b"pending").result()
        stack.enter_context(sharing(broker))
        yield broker
        producer.abort_transaction()


@contextmanager
def sharing(broker: Broker) -> Iterator[None]:
    """Have a share group hold records within the block."""
    holds = threading.Event()

    def read(ended: threading.Event) -> None:
        with ShareConsumer("orders", bootstrap_servers=broker.bootstrap, group_id="workers") as consumer:
            while not ended.is_set():
                if consumer.poll(timeout_ms=100):
                    holds.set()

    with meanwhile(read):
        assert holds.wait(60), "it is given records"
        yield


@pytest.fixture(scope="module")
def unused() -> Iterator[Broker]:
    with Broker(SETTINGS, http=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    watching = observer(tmp_path_factory.mktemp("observed"))
    live_a_day(watching)
    with served([watching]) as address:
        yield address


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(first_runs(tmp_path_factory.mktemp("clusters"))) as address:
        yield address


FRAME = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"


def check(page: Browser, address: str, script: str, view: tuple[str, str]) -> None:
    path, is_there = view
    page.resize(1280, 900)
    page.open("about:blank")
    page.open(f"{address}/{path}")
    page.until(is_there, f"{path} is shown")
    for width, is_dark in WINDOWS:
        page.resize(width, 900, is_dark=is_dark)
        page.until(f"window.innerWidth === {width} && ({is_there})", f"{path} is {width} wide")
        page.run(FRAME)  # The page hears of its new width with the next frame, and does what follows from it.
        assert page.run("document.documentElement.scrollWidth") <= width, "nothing is beside the window"
        assert violations(page, script) == [], f"{path}, {width} px, dark: {is_dark}"


@pytest.mark.parametrize("name", USED)
def test_no_view_keeps_anybody_out(page: Browser, used: Broker, script: str, name: str) -> None:
    check(page, used.http, script, USED[name])


@pytest.mark.parametrize("name", UNUSED)
def test_no_view_of_a_broker_that_nobody_uses_does(
    page: Browser, unused: Broker, script: str, name: str
) -> None:
    check(page, unused.http, script, UNUSED[name])


@pytest.mark.parametrize("name", OBSERVED)
def test_no_view_of_an_observer_does(page: Browser, observed: str, script: str, name: str) -> None:
    check(page, observed, script, OBSERVED[name])


@pytest.mark.parametrize("name", CLUSTERS)
def test_no_first_view_of_a_cluster_does(page: Browser, clusters: str, script: str, name: str) -> None:
    check(page, clusters, script, CLUSTERS[name])


def test_what_is_wrong_is_found(page: Browser, unused: Broker, script: str) -> None:
    page.open("about:blank")
    page.open(f"{unused.http}/#/groups")
    page.until("document.querySelector('main') !== null", "it is shown")
    page.run("document.querySelector('main').append(document.createElement('button')), undefined")
    assert any(each.startswith("button-name") for each in violations(page, script))

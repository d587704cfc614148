"""Takes the pictures of the live page that the docs show: `python -m tests.page.pictures [FOLDER]`.

A group with a storm and one that is calm, on a broker of this process's own.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from kohort.client import Consumer, Producer
from kohort.testing import Broker
from tests.interop.waiting import wait_until
from tests.page.browser import Browser, find_chromium
from tests.page.observed import live_a_day, observer, served

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SETTLE_SECONDS = 6.0
CHART_SECONDS_MAX = 120.0
VALUE = {"order": 0, "customer": "c-3", "total": 19.9, "lines": [{"sku": "A-1", "count": 2}]}


def main() -> None:
    """Write every picture."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    program = find_chromium()
    assert program is not None, "no Chromium on this machine: install Debian's package `chromium`"
    settings = {"group.initial.rebalance.delay.ms": 200, "kohort.lag.interval.ms": 1000}
    with (
        Broker(settings, topics={"orders": 6}, http=True) as broker,
        tempfile.TemporaryDirectory() as profile,
        Browser(program, Path(profile)) as page,
        busy(broker),
    ):
        page.open(f"{broker.http}/")  # Samples for the charts are taken while somebody looks.
        page.until("document.querySelectorAll('main tbody tr').length >= 2", "the groups are listed")
        time.sleep(10.0)  # One of them.
        storm(broker)
        take(page, broker, folder)
    with tempfile.TemporaryDirectory() as profile, Browser(program, Path(profile)) as page:
        take_observer(page, Path(profile), folder)


@contextlib.contextmanager
def busy(broker: Broker) -> Iterator[None]:
    """Have records written and read within the block: `analytics` keeps up, `billing` does not."""
    ended = threading.Event()

    def write() -> None:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            number = 0
            while not ended.wait(0.02):
                number += 1
                key = f"c-{number % 7}".encode()
                producer.send(
                    "orders",
                    json.dumps({**VALUE, "order": number}).encode(),
                    key=key,
                    headers=[("trace", b"4bf92f35")],
                )

    def read(group: str, client: str, pause: float) -> None:
        with Consumer(
            "orders",
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            client_id=client,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=300,
            max_poll_records=4,
        ) as consumer:
            while not ended.wait(pause):
                if consumer.poll(timeout_ms=50):
                    consumer.commit()

    threads = [
        threading.Thread(target=write),
        threading.Thread(target=read, args=("analytics", "analytics-1", 0.01)),
        threading.Thread(target=read, args=("billing", "billing-1", 0.3)),
        threading.Thread(target=read, args=("billing", "billing-2", 0.4)),
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(20)


def storm(broker: Broker) -> None:
    """Have a member of `billing` come and go."""
    for _ in range(3):
        with Consumer(
            "orders", bootstrap_servers=broker.bootstrap, group_id="billing", client_id="billing-3"
        ) as consumer:
            broker.until(
                lambda consumer=consumer: (consumer.poll(timeout_ms=50), consumer.assignment())[1], 30
            )
            time.sleep(1.0)  # That the bars stand apart.
        time.sleep(2.0)


def take(page: Browser, broker: Broker, folder: Path) -> None:
    """Take the pictures, each once the page has looked a few times."""
    page.resize(1280, 420)
    page.open(f"{broker.http}/")
    page.until("document.querySelectorAll('main tbody tr').length >= 2", "the groups are listed")
    picture(page, folder / "page-groups.png")
    page.resize(1280, 1180)
    page.run("[...document.querySelectorAll('main a')].find((a) => a.textContent === 'billing').click()")
    lines = "document.querySelectorAll('figure.chart polyline')"
    wait_until(
        lambda: page.run(f"{lines}.length === 3 && {lines}[2].points.length > 4"),
        "the charts have some samples",
        CHART_SECONDS_MAX,
    )
    picture(page, folder / "page-group.png")
    page.resize(390, 760, is_dark=True)
    picture(page, folder / "page-phone.png")
    page.resize(1280, 1180)
    page.press("t")
    page.until("document.querySelector('h1')?.innerText === 'Topics'", "the topics are listed")
    page.run("[...document.querySelectorAll('main a')].find((a) => a.textContent === 'orders').click()")
    page.until("document.querySelectorAll('#messages tbody tr').length > 0", "messages are shown")
    page.run("document.getElementById('messages-title').scrollIntoView({ block: 'center' })")
    picture(page, folder / "page-topic.png")
    page.press("b")
    page.until("document.querySelector('main').innerText.includes('Ready')", "health is shown")
    picture(page, folder / "page-brokers.png")


def take_observer(page: Browser, store: Path, folder: Path) -> None:
    """Take the picture of a group as an observer shows it: a day with a storm in the night."""
    watching = observer(store)
    live_a_day(watching)
    with served([watching]) as address:
        page.resize(1280, 1260)
        page.open(f"{address}/#/group?id=g&rebalance=12")
        page.until("document.querySelector('svg.timeline') !== null", "the group is shown")
        picture(page, folder / "page-observer.png")


def picture(page: Browser, file: Path) -> None:
    """Write what is shown after a while: trends take some looks."""
    time.sleep(SETTLE_SECONDS)
    file.write_bytes(page.picture())


if __name__ == "__main__":
    main()

"""What the live page may change where that is allowed, by its path and in a real browser."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from kohort.client import Consumer, Producer
from kohort.testing import Broker
from tests.page.browser import Browser, find_chromium

CHROMIUM = find_chromium()
OURS = {"x-kohort-write": "1", "content-type": "application/json"}
EVIL = '<img src=x onerror="window.harmed=1">\'\u202e'


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(http=True, kohort_http_writes_enable=True, topics={"orders": 2}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(6):
                producer.send("orders", value=b"x", partition=number % 2)
        read(broker, EVIL)
        yield broker


def read(broker: Broker, group: str) -> None:
    """Have a group read everything, and leave."""
    with Consumer(
        "orders", bootstrap_servers=broker.bootstrap, group_id=group, auto_offset_reset="earliest"
    ) as consumer:
        seen = 0
        while seen < 6:
            seen += len(consumer.poll(timeout_ms=200))
        consumer.commit()


def offsets(broker: Broker, group: str = EVIL) -> list[int]:
    return list(broker.groups[group].offsets.values())


def write(broker: Broker, headers: dict[str, str] | None = None, **wanted: object) -> tuple[int, str]:
    request = urllib.request.Request(
        f"{broker.http}/api/v1/live/write",
        data=json.dumps(wanted).encode(),
        headers=OURS if headers is None else headers,
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)["done"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error"]


def test_offsets_of_an_empty_group_go_to_either_end(broker: Broker) -> None:
    assert offsets(broker) == [3, 3]
    assert write(broker, action="reset", group=EVIL, to="earliest") == (200, "2 offsets are at the earliest")
    assert offsets(broker) == [0, 0]
    assert write(broker, action="reset", group=EVIL, to="latest") == (200, "2 offsets are at the latest")
    assert offsets(broker) == [3, 3]


def test_an_empty_group_is_deleted_and_is_gone_after_a_restart(broker: Broker) -> None:
    assert write(broker, action="delete", group=EVIL)[0] == 200
    assert EVIL not in broker.groups
    broker.restart()
    assert EVIL not in broker.groups
    assert write(broker, action="delete", group=EVIL)[0] == 404


def test_a_group_with_members_is_not_touched_but_a_member_can_be_removed(broker: Broker) -> None:
    with Consumer(
        "orders", bootstrap_servers=broker.bootstrap, group_id="live", client_id="billing"
    ) as consumer:
        broker.until(lambda: (consumer.poll(timeout_ms=50), broker.groups["live"].state == "Stable")[1])
        for action in ("delete", "reset"):
            status, problem = write(broker, action=action, group="live")
            assert (status, "has members" in problem) == (409, True)
        (member,) = broker.groups["live"].members
        assert write(broker, action="remove", group="live", member="nobody")[0] == 409
        assert write(broker, action="remove", group="live", member=member.member_id) == (
            200,
            "billing is out",
        )
        assert "removed from the live page" in broker.until(
            lambda: next(
                (each.cause for each in broker.groups["live"].rebalances if "left" in each.cause), ""
            )
        )


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({**OURS, "origin": "http://evil.example"}, 403),
        ({**OURS, "origin": "null"}, 403),
        ({**OURS, "host": "evil.example"}, 421),
    ],
)
def test_a_page_of_another_site_changes_nothing(broker: Broker, headers: dict[str, str], status: int) -> None:
    assert write(broker, headers, action="delete", group=EVIL)[0] == status
    assert offsets(broker) == [3, 3]


def test_what_is_no_order_is_refused(broker: Broker) -> None:
    for wanted in ({}, {"action": "drop", "group": EVIL}, {"action": "delete", "group": EVIL, "more": 1}):
        assert write(broker, **wanted)[0] == 400
    assert write(broker, action="delete", group="x" * 5_000)[0] == 413
    assert offsets(broker) == [3, 3]


def test_without_leave_the_page_only_looks() -> None:
    with Broker(http=True) as broker:
        with Consumer("orders", bootstrap_servers=broker.bootstrap, group_id="g") as consumer:
            broker.until(lambda: (consumer.poll(timeout_ms=50), broker.groups["g"].state == "Stable")[1])
        status, problem = write(broker, action="delete", group="g")
        assert (status, "--http-allow-writes" in problem) == (403, True)
        with urllib.request.urlopen(f"{broker.http}/api/v1/live/group?id=g", timeout=20) as answer:
            assert json.load(answer)["may_write"] is False
        assert "g" in broker.groups


@pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine: install Debian's package `chromium`"
)
def test_in_a_browser_it_is_asked_first_and_told_what_came_of_it(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert CHROMIUM is not None
    with Browser(CHROMIUM, tmp_path_factory.mktemp("chromium")) as page:
        page.open(f"{broker.http}/")
        page.until("document.querySelectorAll('main tbody tr').length >= 1", "the groups are listed")
        page.run("document.querySelector('main tbody a').click()")
        page.until("document.querySelectorAll('#changes button').length === 3", "the group can be changed")
        choose(page, "#changes button", "Reset to the earliest")
        assert "Read everything in <img" in page.run("document.querySelector('dialog').innerText")
        assert page.run("document.activeElement.textContent") == "No"
        choose(page, "dialog button", "No")
        assert page.run("document.querySelector('dialog')") is None
        assert offsets(broker) == [3, 3]
        choose(page, "#changes button", "Reset to the earliest")
        choose(page, "dialog button", "Yes")
        page.until(
            "document.querySelector('dialog .good')?.textContent.startsWith('2 offsets')", "it is told"
        )
        assert offsets(broker) == [0, 0]
        choose(page, "dialog button", "Close")
        choose(page, "#changes button", "Delete the group")
        choose(page, "dialog button", "Yes")
        page.until("document.querySelector('dialog .good') !== null", "it is told")
        assert EVIL not in broker.groups
        assert page.run("window.harmed === undefined && !document.querySelector('main img, dialog img')")
        assert page.complaints == []


def choose(page: Browser, selector: str, text: str) -> None:
    page.run(
        f"[...document.querySelectorAll({json.dumps(selector)})]"
        f".find((each) => each.textContent === {json.dumps(text)}).click()"
    )

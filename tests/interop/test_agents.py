"""`/mcp` of a broker and of an observer, asked by the SDK's own client."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from kohort.client import Consumer, Producer
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until
from tests.observe.observer_process import ObserverProcess

mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")

TOOLS = {"list_groups", "group_lag", "why_did_it_rebalance", "who_waits_for_whom"}
SECRET = "a secret for agents"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a group that has read two of three records."""
    process = BrokerProcess(tmp_path_factory.mktemp("agents"), "group.initial.rebalance.delay.ms=0")
    process.options = ("--mcp",)
    process.start()
    with Producer(bootstrap_servers=process.bootstrap) as producer:
        for _ in range(3):
            producer.send("orders", b"x").result()
    with Consumer(
        "orders",
        bootstrap_servers=process.bootstrap,
        group_id="billing",
        client_id="billing-1",
        auto_offset_reset="earliest",
        max_poll_records=2,
        enable_auto_commit=False,
    ) as consumer:
        wait_until(lambda: consumer.poll(timeout_ms=100), "it reads")
        consumer.commit()
        yield process
    process.stop()


@pytest.fixture(scope="module")
def observer(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObserverProcess]:
    process = ObserverProcess(broker.bootstrap, tmp_path_factory.mktemp("observer"), "--mcp")
    process.start()
    process.wait_for("billing", "a member joined")
    yield process
    process.kill()


Mode = Literal["auto", "legacy"]


def call(http: str, name: str, mode: Mode = "auto", **arguments: object) -> tuple[bool, Any]:
    """Return whether a tool has failed, and its answer."""

    async def called() -> Any:
        async with mcp.Client(f"http://{http}/mcp", mode=mode) as client:
            return await client.call_tool(name, arguments)

    result = anyio.run(called)
    (content,) = result.content
    if not result.is_error:
        assert json.loads(content.text) == result.structured_content
        return False, result.structured_content
    return True, content.text


def tools_of(http: str, mode: Mode = "auto", path: str = "/mcp") -> Any:
    """Return the tools that an agent sees."""

    async def listed() -> Any:
        async with mcp.Client(f"http://{http}{path}", mode=mode) as client:
            return await client.list_tools()

    return anyio.run(listed).tools


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("server", ["broker", "observer"])
def test_the_tools_only_read(request: pytest.FixtureRequest, server: str, mode: Mode) -> None:
    http = request.getfixturevalue(server).http
    tools = tools_of(http, mode)
    assert {each.name for each in tools} == TOOLS
    assert all(each.annotations is not None and each.annotations.read_only_hint for each in tools)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("server", ["broker", "observer"])
def test_groups_lag_and_causes_are_told(request: pytest.FixtureRequest, server: str, mode: Mode) -> None:
    http = request.getfixturevalue(server).http
    failed, told = call(http, "list_groups", mode, search="BILL")
    assert not failed
    assert [each["group_id"] for each in told["groups"]] == ["billing"]
    failed, told = call(http, "why_did_it_rebalance", mode, group="billing")
    assert not failed
    assert "billing-1" in told["events"][0]["told"]
    assert call(http, "group_lag", mode, group="nobody") == (True, "there is no group nobody")
    failed, reason = call(http, "group_lag", mode, group="billing", reset="earliest")
    assert (failed, "unknown field `reset`" in reason) == (True, True)


@pytest.mark.parametrize("server", ["broker", "observer"])
def test_lag_by_partition_is_that_of_the_page(request: pytest.FixtureRequest, server: str) -> None:
    http = request.getfixturevalue(server).http
    told: Any = {}
    for _ in range(100):  # The observer looks every second.
        _, told = call(http, "group_lag", group="billing")
        if told["lag"] == 1:
            break
    assert (told["lag"], told["members"]) == (1, 1)
    assert [each["lag"] for each in told["partitions"]] == [1]


def test_for_whom_others_wait_a_broker_knows_and_an_observer_says_that_it_does_not(
    broker: BrokerProcess, observer: ObserverProcess
) -> None:
    _, told = call(broker.http, "who_waits_for_whom", group="billing")
    assert told["is_rebalancing"] is False
    _, told = call(observer.http, "who_waits_for_whom", group="billing")
    assert "only a broker of kohort knows" in told["cannot_know"][0]


def post(http: str, path: str = "/mcp", body: bytes | None = None, **headers: str) -> int:
    """Return the status of a request as an agent's first one."""
    begin = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    request = urllib.request.Request(
        f"http://{http}{path}",
        json.dumps(begin).encode() if body is None else body,
        {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("server", ["broker", "observer"])
def test_pages_of_other_sites_and_what_is_no_request_are_refused(
    request: pytest.FixtureRequest, server: str
) -> None:
    http = request.getfixturevalue(server).http
    assert post(http) == 200
    assert post(http, origin=f"http://{http}") == 200
    assert post(http, origin="https://evil.example") == 403
    assert post(http, host="evil.example") == 421
    assert post(http, body=b"{" * 5_000) == 413
    assert post(http, body=b"{") == 400
    with pytest.raises(urllib.error.HTTPError, match="405") as refused:
        urllib.request.urlopen(f"http://{http}/mcp", timeout=20)
    assert refused.value.headers["allow"] == "POST"


def test_agents_are_answered_where_that_is_asked_for_alone(broker: BrokerProcess, tmp_path: Path) -> None:
    folders = [tmp_path / each for each in ("broker", "observer")]
    for each in folders:
        each.mkdir()
    closed = BrokerProcess(folders[0])
    closed.start()
    observer = ObserverProcess(f"one={broker.bootstrap}", folders[1])
    try:
        assert post(closed.http) == 404
        observer.start()
        assert post(observer.http, "/one/mcp") in {404, 501}
    finally:
        closed.stop()
        observer.kill()


def test_each_of_several_clusters_has_its_own(broker: BrokerProcess, tmp_path: Path) -> None:
    observer = ObserverProcess(f"one={broker.bootstrap} two=127.0.0.1:1", tmp_path, "--mcp")
    try:
        observer.start()
        assert post(observer.http) == 404
        assert post(observer.http, "/two/mcp") == 200
        assert {each.name for each in tools_of(observer.http, path="/one/mcp")} == TOOLS
    finally:
        observer.kill()


def test_agents_have_the_rights_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(f"agents:{SECRET}\n")
    guarded = BrokerProcess(
        tmp_path, "kohort.mcp.enable=true", f"kohort.http.credentials.file={tmp_path}/credentials"
    )
    guarded.start()
    try:
        assert post(guarded.http) == 401
        assert post(guarded.http, authorization="Bearer another") == 401
        assert post(guarded.http, authorization=f"Bearer {SECRET}") == 200
    finally:
        guarded.stop()

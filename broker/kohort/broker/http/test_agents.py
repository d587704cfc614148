"""`/mcp` before an application: on whose behalf it is asked, and what is none of an agent's business."""

import pytest
import trio
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from kohort.broker.config import BrokerConfig, ConfigError
from kohort.broker.http import mcp_sdk
from kohort.broker.http.agents import PATH, Agents, refusal
from kohort.broker.http.guard import KNOWN, USER
from kohort.broker.http.questions import Question, answered
from kohort.broker.main import check_agents

CALL = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
    b'{"name":"list_groups","arguments":{"search":"a b&c"}}}'
)
HEADERS = (
    (b"content-type", b"application/json"),
    (b"accept", b"application/json, text/event-stream"),
    (b"mcp-protocol-version", b"2025-06-18"),
    (b"content-length", str(len(CALL)).encode()),
    (b"host", b"localhost:9644"),
)


class Page:
    """An application that has two groups, and remembers who asked."""

    def __init__(self) -> None:
        self.asked: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(scope)
        await trio.lowlevel.checkpoint()
        content = {"groups": [{"group_id": "a"}, {"group_id": "b"}], "matching": 2, "unanswered": []}
        await JSONResponse(content)(scope, receive, send)


async def test_the_application_is_asked_on_behalf_of_the_agents_user() -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    page = Page()
    who = {USER: "alice", KNOWN: True}
    told = await answered(Agents(page), Question("POST", PATH, b"", HEADERS, CALL), who)
    assert told.status == 200
    assert [each["group_id"] for each in told.json()["result"]["structuredContent"]["groups"]] == ["a", "b"]
    (scope,) = page.asked
    assert (scope["method"], scope["path"]) == ("GET", "/api/v1/live/groups")
    assert scope["query_string"] == b"q=a+b%26c&order=lag"
    assert (scope[USER], scope[KNOWN]) == ("alice", True)
    assert scope["headers"] == [], "no secret is passed on"


async def test_every_other_path_is_the_applications() -> None:
    page = Page()
    await answered(Agents(page), Question("GET", "/mcp/other"))
    assert [each["path"] for each in page.asked] == ["/mcp/other"]


async def test_a_page_of_another_site_and_a_listener_are_refused_without_the_sdk() -> None:
    page = Page()
    foreign = (*HEADERS, (b"origin", b"https://evil.example"))
    told = await answered(Agents(page), Question("POST", PATH, b"", foreign, CALL))
    assert (told.status, "evil.example" in told.json()["error"]) == (403, True)
    assert (await answered(Agents(page), Question("GET", PATH, b"", HEADERS))).status == 405
    assert page.asked == []


def test_an_origin_has_to_be_the_host() -> None:
    assert refusal("POST", {"origin": "http://a:1", "host": "a:1"}) is None
    for origin in ("http://a:2", "null", "http://a:1.evil.example", ""):
        assert refusal("POST", {"origin": origin, "host": "a:1"}) is not None


def test_a_broker_that_lacks_the_sdk_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_sdk, "is_installed", lambda: False)
    check_agents(BrokerConfig.parsed({}))
    with pytest.raises(ConfigError, match=r"pip install 'kohort\[mcp\]'"):
        check_agents(BrokerConfig.parsed({"kohort.mcp.enable": "true"}))

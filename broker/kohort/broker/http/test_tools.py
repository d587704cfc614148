"""What agents are told, from made-up views of the live page."""

from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from kohort.broker.http.tools import TOOLS, Json, NoAnswer, answered_by

GROUP: Json = {
    "group_id": "g",
    "type": "classic",
    "state": "PreparingRebalance",
    "lag": 7,
    "lag_seconds": 1.5,
    "verdict": "WARN",
    "storm": 0,
    "members": [
        {"client_id": "a", "member_id": "a-1", "waits_for": "b"},
        {"client_id": "b", "member_id": "b-1", "waits_for": None},
    ],
    "members_left_out": 1,
    "offsets": [{"topic": "t", "partition": each, "lag": 1} for each in range(120)],
    "offsets_left_out": 3,
    "rebalance": {"ongoing_ms": 500, "waits_for_member_ids": ["b-1"]},
    "rebalances": [
        {
            "generation_id": number,
            "cause": "a member joined",
            "started_ms": number,
            "members": 2,
            "moved": 1,
            "story": [f"generation {number}", "  Cause: a joined."],
            "waited_for": [
                {"client_id": "b", "member_id": "b-1", "waited_ms": 100, "joined": number > 1},
                {"client_id": "", "member_id": "c-1", "waited_ms": 10, "joined": True},
            ],
        }
        for number in (1, 2, 3)
    ],
}


def page(view: Json, status: int = 200) -> Callable[[str], Awaitable[tuple[int, bytes]]]:
    async def ask(target: str) -> tuple[int, bytes]:
        asked.append(target)
        return status, msgspec.json.encode(view)

    asked.clear()
    return ask


asked: list[str] = []


async def test_lag_has_the_partitions_that_are_furthest_behind() -> None:
    told = await answered_by("group_lag", {"group": "a&b ?"}, page(GROUP))
    assert parse_qs(urlsplit(asked[0]).query) == {"id": ["a&b ?"], "history": ["no"]}
    assert (told["lag"], told["members"], len(told["partitions"])) == (7, 3, 100)
    assert told["partitions_not_shown"] == 23


async def test_the_newest_causes_come_first() -> None:
    told = await answered_by("why_did_it_rebalance", {"group": "g", "last": 2}, page(GROUP))
    assert [each["generation_id"] for each in told["events"]] == [3, 2]
    assert told["events"][0]["told"] == "generation 3\n  Cause: a joined."


async def test_who_waits_now_and_for_whom_they_waited_lately() -> None:
    told = await answered_by("who_waits_for_whom", {"group": "g"}, page(GROUP))
    assert (told["is_rebalancing"], told["ongoing_ms"], told["waits_for_member_ids"]) == (True, 500, ["b-1"])
    assert told["members_that_wait"] == [{"client_id": "a", "member_id": "a-1", "waits_for": "b"}]
    assert told["waited_for_lately"] == [
        {"client_id": "b", "waited_ms": 300, "times": 3, "in_vain": 1},
        {"client_id": "c-1", "waited_ms": 30, "times": 3, "in_vain": 0},
    ]
    assert parse_qs(urlsplit(asked[0]).query)["history"] == ["no"]
    quiet = await answered_by("who_waits_for_whom", {"group": "g"}, page({**GROUP, "rebalance": None}))
    assert (quiet["is_rebalancing"], quiet["waits_for_member_ids"]) == (False, [])


async def test_what_is_missing_is_told() -> None:
    listed: Json = {
        "groups": [{"group_id": "g", "lag": 1}],
        "matching": 5,
        "unanswered": [{"broker": 2, "reason": "it is away"}],
        "cannot_know": ["much"],
    }
    told = await answered_by("list_groups", {"search": "g", "order": "name"}, page(listed))
    assert parse_qs(urlsplit(asked[0]).query) == {"q": ["g"], "order": ["name"]}
    assert (told["not_shown"], told["cannot_know"]) == (4, ["much"])
    assert told["brokers_that_do_not_answer"][0]["broker"] == 2


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("delete_group", {}, "there is no tool delete_group: there are list_groups"),
        ("group_lag", {}, "missing required field `group`"),
        ("group_lag", {"group": "g", "reset": True}, "unknown field `reset`"),
        ("why_did_it_rebalance", {"group": "g", "last": 51}, "<= 50"),
        ("list_groups", {"order": "any"}, "Invalid enum value"),
    ],
)
async def test_what_cannot_be_asked_is_refused_with_the_reason(
    name: str, arguments: Json, reason: str
) -> None:
    with pytest.raises(NoAnswer, match=reason):
        await answered_by(name, arguments, page(GROUP))
    assert asked == []


async def test_the_reason_of_the_page_is_passed_on() -> None:
    with pytest.raises(NoAnswer, match="there is no group g"):
        await answered_by("group_lag", {"group": "g"}, page({"error": "there is no group g"}, 404))


def test_each_tool_has_a_schema_of_its_arguments() -> None:
    for each in TOOLS.values():
        assert each.schema["type"] == "object"
        assert each.schema["additionalProperties"] is False
        assert all("description" in one for one in each.schema["properties"].values())

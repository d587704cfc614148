"""What agents may ask about groups, and the answers, from the views of the live page.

An agent sees what the page shows, no more: each answer is made of the page's own views, those of a broker or
of an observer.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

import msgspec

OK = 200
VIEWS = "/api/v1/live/"
ROWS_MAX = 100
PARTITIONS_MAX = 100
CLIENTS_MAX = 20
CANNOT_KNOW = (
    "For whom members wait, and for how long, only a broker of kohort knows: this is an observer beside the "
    "cluster. why_did_it_rebalance tells who joined, left or was too slow."
)

Json = dict[str, Any]
Ask = Callable[[str], Awaitable[tuple[int, bytes]]]
"""Returns the status and the body of what is at a path with its query."""


class NoAnswer(Exception):
    """The reason why there is no answer."""


class GroupsAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which groups to list."""

    search: Annotated[str, msgspec.Meta(description="A part of the group's id; empty for all.")] = ""
    order: Annotated[
        Literal["lag", "name", "members", "state"],
        msgspec.Meta(description="What comes first; lag: the most."),
    ] = "lag"


class GroupAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which group."""

    group: Annotated[str, msgspec.Meta(description="The id of the group.")]


class HistoryAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which group, and how much of its history."""

    group: Annotated[str, msgspec.Meta(description="The id of the group.")]
    last: Annotated[int, msgspec.Meta(ge=1, le=50, description="How many of the newest events.")] = 5


Asked = GroupsAsked | GroupAsked | HistoryAsked


class Tool(NamedTuple):
    """A question that agents may ask: `arguments` is read from JSON, `answer` makes the answer."""

    description: str
    arguments: type[Asked]
    answer: Callable[[Ask, Any], Awaitable[Json]]

    @property
    def schema(self) -> Json:
        """The JSON Schema of the arguments."""
        _, components = msgspec.json.schema_components([self.arguments])
        schema: Json = components[self.arguments.__name__]
        return schema


async def list_groups(ask: Ask, asked: GroupsAsked) -> Json:
    """Return groups in short. Raises: NoAnswer."""
    told = await _view(ask, "groups", q=asked.search, order=asked.order)
    names = ("group_id", "type", "state", "members", "lag", "lag_seconds", "verdict", "cause", "storm")
    rows = [{name: each.get(name) for name in names} for each in told["groups"][:ROWS_MAX]]
    return {
        "groups": rows,
        "matching": told["matching"],
        "not_shown": max(told["matching"] - len(rows), 0),
        **_gaps(told),
    }


async def group_lag(ask: Ask, asked: GroupAsked) -> Json:
    """Return how far a group is behind, the partitions with the most lag first. Raises: NoAnswer."""
    told = await _view(ask, "group", id=asked.group, history="no")
    offsets = told["offsets"]
    left = told["offsets_left_out"] + max(len(offsets) - PARTITIONS_MAX, 0)
    return {
        **{name: told[name] for name in ("group_id", "type", "state", "lag", "lag_seconds", "verdict")},
        "members": len(told["members"]) + told["members_left_out"],
        "partitions": offsets[:PARTITIONS_MAX],
        "partitions_not_shown": left,
        **_gaps(told),
    }


async def why_did_it_rebalance(ask: Ask, asked: HistoryAsked) -> Json:
    """Return what happened to a group last, and why, in words; the newest first. Raises: NoAnswer."""
    told = await _view(ask, "group", id=asked.group)
    names = ("generation_id", "cause", "likelihood", "started_ms", "members", "moved")
    events = [
        {**{name: each[name] for name in names if name in each}, "told": "\n".join(each["story"])}
        for each in reversed(told["rebalances"][-asked.last :])
    ]
    return {
        "group_id": told["group_id"],
        "state": told["state"],
        "is_in_a_storm": bool(told["storm"]),
        "events": events,
        **({"in_short": "\n".join(told["digest"])} if "digest" in told else {}),
        **_gaps(told),
    }


async def who_waits_for_whom(ask: Ask, asked: GroupAsked) -> Json:
    """Return for whom a group waits now, and for whom it has waited lately. Raises: NoAnswer."""
    told = await _view(ask, "group", id=asked.group, history="no")
    if "digest" in told:
        return {"group_id": told["group_id"], "state": told["state"], "cannot_know": [CANNOT_KNOW]}
    ongoing = told["rebalance"]
    waited: dict[str, Json] = {}
    for rebalance in told["rebalances"]:
        for each in rebalance["waited_for"]:
            name = each["client_id"] or each["member_id"]
            known = waited.setdefault(name, {"client_id": name, "waited_ms": 0, "times": 0, "in_vain": 0})
            known["waited_ms"] += each["waited_ms"]
            known["times"] += 1
            known["in_vain"] += not each["joined"]
    longest = sorted(waited.values(), key=lambda each: -each["waited_ms"])
    return {
        "group_id": told["group_id"],
        "state": told["state"],
        "is_rebalancing": ongoing is not None,
        "ongoing_ms": None if ongoing is None else ongoing["ongoing_ms"],
        "waits_for_member_ids": [] if ongoing is None else ongoing["waits_for_member_ids"][:CLIENTS_MAX],
        "members_that_wait": [
            {name: each.get(name) for name in ("client_id", "member_id", "waits_for")}
            for each in told["members"]
            if each.get("waits_for")
        ][:CLIENTS_MAX],
        "waited_for_lately": longest[:CLIENTS_MAX],
        **_gaps(told),
    }


TOOLS: Mapping[str, Tool] = {
    "list_groups": Tool(
        "List consumer, share and streams groups of the Kafka cluster: state, members, lag in records and "
        "seconds, whether each keeps up (verdict), the cause of its last rebalance, and whether it storms.",
        GroupsAsked,
        list_groups,
    ),
    "group_lag": Tool(
        "How far one group is behind, in records and in seconds, by partition, with a verdict: OK, WARN (too "
        "slow), STALL (commits the same offset), STOP (commits no more), REWIND (went back).",
        GroupAsked,
        group_lag,
    ),
    "why_did_it_rebalance": Tool(
        "Why one group rebalanced: the newest events with their causes, what each rests on, how sure it is.",
        HistoryAsked,
        why_did_it_rebalance,
    ),
    "who_waits_for_whom": Tool(
        "In a rebalance: for which members the others wait now, and which clients they waited for lately, "
        "how long, and how often in vain.",
        GroupAsked,
        who_waits_for_whom,
    ),
}


async def answered_by(name: str, arguments: Mapping[str, object] | None, ask: Ask) -> Json:
    """Return the answer of a tool. Raises: NoAnswer, also for arguments that it does not have."""
    tool = TOOLS.get(name)
    if tool is None:
        raise NoAnswer(f"there is no tool {name}: there are {', '.join(TOOLS)}")
    try:
        asked = msgspec.convert(dict(arguments or {}), tool.arguments)
    except msgspec.ValidationError as error:
        raise NoAnswer(f"{name}: {error}") from None
    return await tool.answer(ask, asked)


async def _view(ask: Ask, name: str, **parameters: str) -> Json:
    """Return a view of the live page. Raises: NoAnswer."""
    status, body = await ask(f"{VIEWS}{name}?{urlencode(parameters)}")
    told: Json = msgspec.json.decode(body)
    if status != OK:
        raise NoAnswer(str(told.get("error", f"the page answers {status}")))
    return told


def _gaps(told: Json) -> Json:
    """Return what a view lacks: brokers that did not answer, and what the observer may not know."""
    found: Json = {}
    if told.get("unanswered"):
        found["brokers_that_do_not_answer"] = told["unanswered"]
    if told.get("cannot_know"):
        found["cannot_know"] = told["cannot_know"]
    return found

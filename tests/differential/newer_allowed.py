"""Where kohort answers otherwise than Apache Kafka of groups of newer kinds, on purpose, with the reason.

docs/compatibility.md lists them. Each but those that change nothing ends its script.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.differential.told import Ask, Rendered

UNKNOWN_SERVER_ERROR, NONE = -1, 0
UNRELEASED_INSTANCE_ID = 111
UNKNOWN_MEMBER_ID, INVALID_REQUEST, GROUP_ID_NOT_FOUND = 25, 42, 69


@dataclass(frozen=True)
class NewerAllowed:
    """A difference that stays. `ends`: from there on the groups stand differently."""

    name: str
    kohort: str
    kafka: str
    reason: str
    holds: Callable[[Ask, Rendered, Rendered], bool]
    ends: bool = False


def _server_error(ask: Ask, ours: Rendered, theirs: Rendered) -> bool:
    return _code(theirs) == UNKNOWN_SERVER_ERROR and _code(ours) not in (NONE, UNKNOWN_SERVER_ERROR)


def _code(answer: Rendered) -> int:
    """Return the error code of an answer, or of the only group in it."""
    groups = answer.get("groups")
    if groups and len(groups) == 1:
        return int(groups[0]["error_code"])
    return int(answer.get("error_code", NONE))


def _joins_again(ask: Ask, ours: Rendered, theirs: Rendered) -> bool:
    return (
        ask.name == "ConsumerGroupHeartbeat"
        and theirs["error_code"] == UNRELEASED_INSTANCE_ID
        and ours["error_code"] == NONE
    )


def _no_tasks_for_an_endpoint(ask: Ask, ours: Rendered, theirs: Rendered) -> bool:
    return (
        ask.name == "StreamsGroupHeartbeat"
        and (ours["error_code"], theirs["error_code"]) == (NONE, UNKNOWN_SERVER_ERROR)
        and ours["active_tasks"] == 0
        and bool(ours["partitions_by_user_endpoint"])
    )


def _has_no_partitions_yet(ask: Ask, ours: Rendered, theirs: Rendered) -> bool:
    return ask.name == "StreamsGroupDescribe" and _without_partitions(ours) == theirs


def _is_static(ask: Ask, ours: Rendered, theirs: Rendered) -> bool:
    return (
        ask.name == "StreamsGroupHeartbeat"
        and "instance_id" in ask.text
        and ours["error_code"] in (UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND)
        and theirs["error_code"] == INVALID_REQUEST
    )


def _is_not_ready(ask: Ask, ours: Rendered, theirs: Rendered) -> bool:
    return (
        ask.name == "ListGroups"
        and [each for each in ours["groups"] if each["group_state"] != "NotReady"] == theirs["groups"]
    )


def _without_partitions(group: Rendered) -> Rendered:
    topology = group["topology"]
    if topology is None:
        return group
    kinds = ("repartition_source_topics", "state_changelog_topics")
    subtopologies = [
        {**each, **{kind: [{**topic, "partitions": 0} for topic in each[kind]] for kind in kinds}}
        for each in topology["subtopologies"]
    ]
    return {**group, "topology": {**topology, "subtopologies": subtopologies}}


NEWER_ALLOWED = (
    NewerAllowed(
        name="OffsetFetch has a member epoch and no member id; a classic member joins with metadata that "
        "can't be read",
        kohort="UNKNOWN_MEMBER_ID; INCONSISTENT_GROUP_PROTOCOL",
        kafka="UNKNOWN_SERVER_ERROR, from an exception that it does not expect",
        reason="it is the client's error, and a client knows what to do about this code",
        holds=_server_error,
    ),
    NewerAllowed(
        name="a static member that is in the group joins again under its own member id",
        kohort="is given its place again",
        kafka="UNRELEASED_INSTANCE_ID, until its session ends",
        reason="the id says that it is the same process, whose first answer was lost",
        holds=_joins_again,
        ends=True,
    ),
    NewerAllowed(
        name="a member of a streams group with an endpoint brings a topology that does not fit its topics",
        kohort="is a member without tasks, and is told what is the matter",
        kafka="UNKNOWN_SERVER_ERROR, from an exception that it does not expect",
        reason="without an endpoint Kafka answers the same as kohort",
        holds=_no_tasks_for_an_endpoint,
        ends=True,
    ),
    NewerAllowed(
        name="a member of a streams group names a static one that is not there",
        kohort="UNKNOWN_MEMBER_ID; GROUP_ID_NOT_FOUND",
        kafka="INVALID_REQUEST",
        reason="static members of streams groups are there from Kafka 4.4 on",
        holds=_is_static,
        ends=True,
    ),
    NewerAllowed(
        name="groups are listed that are NotReady",
        kohort="lists them by that name, and by not_ready",
        kafka="by not_ready alone",
        reason="the first is the name that its own tools send",
        holds=_is_not_ready,
    ),
    NewerAllowed(
        name="a streams group is described after its first heartbeat, and its internal topics are there",
        kohort="says how many partitions they have",
        kafka="0, until the next heartbeat",
        reason="it is known",
        holds=_has_no_partitions_yet,
    ),
)


def allowed(ask: Ask, ours: Rendered, theirs: Rendered) -> NewerAllowed | None:
    """Return the difference that this is, None where it is none of those."""
    return next((each for each in NEWER_ALLOWED if each.holds(ask, ours, theirs)), None)

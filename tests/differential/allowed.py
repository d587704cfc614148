"""Where kohort answers otherwise than Apache Kafka on purpose: each with its reason, each counted.

docs/compatibility.md lists them with how often a run met them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.differential.requests import Ask
from tests.differential.side import Rendered

NO_ANSWER = "no answer"
UNKNOWN_SERVER_ERROR, NONE = -1, 0
OFFSET_METADATA_TOO_LARGE, INCONSISTENT_GROUP_PROTOCOL, FENCED_INSTANCE_ID = 12, 23, 82
UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, GROUP_MAX_SIZE_REACHED = 25, 27, 81


@dataclass(frozen=True)
class Case:
    """Two answers that differ, in the step in which they came."""

    ask: Ask
    is_older: bool
    ours: Rendered
    theirs: Rendered
    answers: dict[int, Rendered]

    def code(self, answer: Rendered) -> int | None:
        """Return the error code of an answer, None where there is none."""
        return answer["error_code"] if isinstance(answer, dict) and "error_code" in answer else None


@dataclass(frozen=True)
class Allowed:
    """A difference that stays. `ends`: from there on the groups stand differently, so the script ends."""

    name: str
    kohort: str
    kafka: str
    reason: str
    holds: Callable[[Case], bool]
    ends: bool = False


def without_clients(described: Rendered, *, of_static: bool = True) -> Rendered:
    """Return described groups without the client ids of their static members, or of all members."""
    assert isinstance(described, dict)

    def plain(member: dict[str, object]) -> dict[str, object]:
        if of_static and member["group_instance_id"] is None:
            return member
        return {**member, "client_id": ""}

    return [
        {**group, "members": sorted((plain(each) for each in group["members"]), key=str)}
        for group in described["groups"]
    ]


def _another_client(case: Case) -> bool:
    """Return whether only client ids differ; before version 4 nobody says which members are static."""
    if case.ask.name != "DescribeGroups" or NO_ANSWER in (case.ours, case.theirs):
        return False
    return without_clients(case.ours, of_static=False) == without_clients(case.theirs, of_static=False)


def _sent_twice(case: Case) -> bool:
    return case.is_older and case.theirs == NO_ANSWER and case.code(case.ours) == REBALANCE_IN_PROGRESS


def _left_while_syncing(case: Case) -> bool:
    left = case.ask.name == "SyncGroup" and case.code(case.ours) == UNKNOWN_MEMBER_ID
    return left and case.is_older and case.theirs == NO_ANSWER


def _dropped_for_size(case: Case) -> bool:
    full = any(case.code(each) == GROUP_MAX_SIZE_REACHED for each in case.answers.values())
    return full and case.theirs == NO_ANSWER and case.is_older and case.code(case.ours) == NONE


def _server_error(case: Case) -> bool:
    refused = case.code(case.ours) in {UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID}
    return refused and case.code(case.theirs) == UNKNOWN_SERVER_ERROR


def _refused(case: Case) -> bool:
    if case.ask.name == "JoinGroup":
        return case.code(case.theirs) == INCONSISTENT_GROUP_PROTOCOL
    return case.ask.name == "OffsetCommit" and f"'error_code': {OFFSET_METADATA_TOO_LARGE}" in str(
        case.theirs
    )


ALLOWED = (
    Allowed(
        name="a member asks again while its request waits",
        kohort="answers the older request REBALANCE_IN_PROGRESS",
        kafka="never answers it",
        reason="a connection whose oldest request is never answered is of no use to its client",
        holds=_sent_twice,
    ),
    Allowed(
        name="a member leaves, or is put out, while its SyncGroup waits",
        kohort="answers the SyncGroup UNKNOWN_MEMBER_ID",
        kafka="never answers it",
        reason="as above",
        holds=_left_while_syncing,
    ),
    Allowed(
        name="the last member that a join phase waits for is refused for group.max.size",
        kohort="ends the join phase at once",
        kafka="lets the others wait for the rebalance timeout",
        reason="nobody is missing any more, and the timeout is five minutes",
        holds=_dropped_for_size,
        ends=True,
    ),
    Allowed(
        name="an id given to a dynamic member comes back with a group.instance.id",
        kohort="UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID where another holds that name",
        kafka="UNKNOWN_SERVER_ERROR, from an exception that it does not expect",
        reason="it is the client's error, and a client knows what to do about this code",
        holds=_server_error,
    ),
)


ANOTHER_CLIENT = Allowed(
    name="a static member comes back from another client",
    kohort="is shown with its new client id and host",
    kafka="is shown with those that it had first",
    reason="whoever looks for the process finds it",
    holds=_another_client,
)
REFUSED_AT_ONCE = Allowed(
    name="the first JoinGroup or OffsetCommit of a group is refused",
    kohort="there is no such group",
    kafka="there is one from then on, Empty",
    reason="whoever may connect could fill memory and log with groups that nobody has",
    holds=_refused,
    ends=True,
)
ALL = (*ALLOWED, ANOTHER_CLIENT, REFUSED_AT_ONCE)


def allowed(case: Case) -> Allowed | None:
    """Return the difference that this is, None where it is none of those."""
    return next((each for each in (*ALLOWED, ANOTHER_CLIENT) if each.holds(case)), None)

"""What the live page may change, where the broker's owner lets it: groups, and the offsets of empty ones."""

from collections.abc import Iterable
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from kohort.broker.group.group import AnyGroup
from kohort.broker.group.kinds import status_of
from kohort.broker.http.asking import Ask, NotAnswered
from kohort.broker.http.guard import error_response
from kohort.broker.http.view import View
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

ALLOWED_BY = "kohort.http.writes.enable is false: kohort serve --http-allow-writes"
HEADER = "x-kohort-write"
"""No page of another site can send it without asking first (CORS), which is not answered."""
WORDS = {
    ErrorCode.NON_EMPTY_GROUP: "the group has members: stop them first",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members, or this one is gone",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.NOT_COORDINATOR: "this broker does not coordinate the group; ask its coordinator",
}
REASON = "removed from the live page"


class Write(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked for."""

    action: Literal["delete", "reset", "remove"]
    group: str
    to: Literal["earliest", "latest"] = "earliest"
    member: str = ""


class Refused(Exception):
    """Nothing was done, or not all of it: why."""


async def write(view: View, request: Request) -> Response:
    """Return that it was done, or why not."""
    ask = view.asks()
    if ask is None:
        return error_response(403, ALLOWED_BY)
    if problem := _foreign(request):
        return error_response(403, problem)
    try:
        wanted = msgspec.json.decode(await request.body(), type=Write)
    except msgspec.DecodeError as error:
        return error_response(400, str(error))
    group = view.group(wanted.group)
    if group is None:
        return error_response(404, f"there is no group {wanted.group} here")
    try:
        done = await _DO[wanted.action](view, ask, group, wanted)
    except (Refused, NotAnswered) as error:
        return error_response(409, str(error))
    return Response(msgspec.json.encode({"done": done}), media_type="application/json")


def _foreign(request: Request) -> str:
    """Return why this does not come from the live page or a program, but from another site; or nothing."""
    origin = request.headers.get("origin")
    if origin is not None and host_and_port(origin) != request.headers.get("host", ""):
        return f"this comes from a page of {origin}"
    if request.headers.get(HEADER) != "1":
        return f"send the header {HEADER}: 1"
    return ""


def host_and_port(origin: str) -> str:
    """Return what a page's Host header would say."""
    return origin.partition("://")[2]


async def _delete(view: View, ask: Ask, group: AnyGroup, wanted: Write) -> str:
    answer = await ask("DeleteGroups", 2, DeleteGroupsRequest(groups_names=(group.group_id,)))
    assert isinstance(answer, DeleteGroupsResponse)
    _check(each.error_code for each in answer.results)
    return f"{group.group_id} is deleted"


async def _remove(view: View, ask: Ask, group: AnyGroup, wanted: Write) -> str:
    members = status_of(group, 0).members
    member = next((each for each in members if each.member_id == wanted.member), None)
    if member is None:
        raise Refused("there is no such member")
    leaving = MemberIdentity(
        member_id=member.member_id, group_instance_id=member.group_instance_id, reason=REASON
    )
    asked = LeaveGroupRequest(group_id=group.group_id, member_id="", members=(leaving,))
    answer = await ask("LeaveGroup", 5, asked)
    assert isinstance(answer, LeaveGroupResponse)
    _check((answer.error_code, *(each.error_code for each in answer.members)))
    return f"{member.client_id} is out"


async def _reset(view: View, ask: Ask, group: AnyGroup, wanted: Write) -> str:
    if status_of(group, 0).members:  # The commit would say so too, but not where there is nothing to commit.
        raise Refused(WORDS[ErrorCode.NON_EMPTY_GROUP])
    topics = []
    count = 0
    places = [(topic, index) for topic, offsets in group.offsets.items() for index in offsets]
    ends = await view.ends(places)
    for topic, offsets in sorted(group.offsets.items()):
        partitions = []
        for index in sorted(offsets):
            if (topic, index) not in ends:
                raise Refused(f"{topic}-{index} has no leader now, or its leader does not answer: try again")
            found = ends[topic, index]
            end = found.high_watermark if wanted.to == "latest" else found.log_start_offset
            partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=end, committed_metadata=""
                )
            )
        count += len(partitions)
        topics.append(OffsetCommitRequestTopic(name=topic, partitions=tuple(partitions)))
    asked = OffsetCommitRequest(group_id=group.group_id, member_id="", topics=tuple(topics))
    answer = await ask("OffsetCommit", 9, asked)
    assert isinstance(answer, OffsetCommitResponse)
    _check(each.error_code for topic in answer.topics for each in topic.partitions)
    return f"{count} offsets are at the {wanted.to}"


def _check(codes: Iterable[int]) -> None:
    """Raise the first error in words. Raises: Refused."""
    for code in codes:
        if code:
            found = ErrorCode(code)
            raise Refused(WORDS.get(found, found.name))


_DO = {"delete": _delete, "reset": _reset, "remove": _remove}

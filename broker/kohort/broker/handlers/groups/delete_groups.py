"""DeleteGroups: groups without members, and their offsets. Kafka: handleDeleteGroupsRequest, KIP-229."""

from kohort.broker.group import DeleteGroup
from kohort.broker.handlers.gather import Gather
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError
from kohort.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kohort.protocol.schema import Message


def handle(
    groups: GroupServices, message: DeleteGroupsRequest, request: Request
) -> DeleteGroupsResponse | None:
    """Ask every group's shard; answered when all tombstones are durable."""
    names = tuple(dict.fromkeys(message.groups_names))
    if not names:
        return DeleteGroupsResponse(throttle_time_ms=0, results=())

    def finish(results: tuple[Message, ...]) -> None:
        request.respond(DeleteGroupsResponse(throttle_time_ms=0, results=results))  # type: ignore[arg-type]  # a result each

    gather = Gather(len(names), finish)
    for position, group_id in enumerate(names):
        try:
            shard = groups.shards.shard_of(group_id)
        except ApiError as error:
            gather.put(position, DeletableGroupResult(group_id=group_id, error_code=error.code))
            continue
        group = groups.shards.group(group_id)
        if group is not None and not group.has_offsets and groups.shares is not None:
            # Imported where there is such a group.
            from kohort.broker.handlers.share.deleting import delete_share_group  # noqa: PLC0415

            delete_share_group(groups.shares(), shard, group_id, request, gather.place(position))
            continue
        shard.submit(DeleteGroup(shard.ask(request, gather.place(position)), group_id))
    return None

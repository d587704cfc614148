"""DescribeGroups: state, members and assignments. Kafka: KafkaApis.handleDescribeGroupsRequest."""

from typing import cast

from kohort.broker.group import DescribeGroup
from kohort.broker.handlers.gather import Gather
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.handlers.groups.group_operations import with_operations
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError
from kohort.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kohort.protocol.schema import Message


def handle(
    groups: GroupServices, message: DescribeGroupsRequest, request: Request
) -> DescribeGroupsResponse | None:
    """Ask every group's shard; answered when all have answered."""
    if not message.groups:
        return DescribeGroupsResponse(groups=())

    def finish(described: tuple[Message, ...]) -> None:
        found = cast("tuple[DescribedGroup, ...]", described)
        asked = message.include_authorized_operations
        request.respond(DescribeGroupsResponse(groups=with_operations(found, asked=asked)))

    wanted = tuple(dict.fromkeys(message.groups))  # A large group named a thousand times is answered once.
    gather = Gather(len(wanted), finish)
    for position, group_id in enumerate(wanted):
        try:
            shard = groups.shards.shard_of(group_id)
        except ApiError as error:
            gather.put(position, refused(group_id, error))
            continue
        request_id = shard.ask(request, gather.place(position))
        shard.submit(DescribeGroup(request_id, group_id, request.version))
    return None


def refused(group_id: str, error: ApiError) -> DescribedGroup:
    """Return the answer of a group that cannot be asked."""
    return DescribedGroup(
        error_code=error.code,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=(),
    )

"""StreamsGroupDescribe: streams groups with their epochs, topologies and members. Kafka: KIP-1071."""

from typing import cast

from kohort.broker.group.streams.commands import StreamsGroupDescribe, describe_error
from kohort.broker.handlers.gather import Gather
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.handlers.groups.group_operations import with_operations
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeDescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from kohort.protocol.schema import Message


def handle(
    groups: GroupServices, message: StreamsGroupDescribeRequest, request: Request
) -> StreamsGroupDescribeResponse | None:
    """Ask every group's shard; answered when all have answered."""
    wanted = tuple(dict.fromkeys(message.group_ids))  # A large group named a thousand times is answered once.
    if not wanted or groups.internal_topics is None:
        refused = tuple(describe_error(each, ErrorCode.UNSUPPORTED_VERSION) for each in wanted)
        return StreamsGroupDescribeResponse(throttle_time_ms=0, groups=refused)

    def finish(described: tuple[Message, ...]) -> None:
        found = cast("tuple[StreamsGroupDescribeDescribedGroup, ...]", described)
        told = with_operations(found, asked=message.include_authorized_operations)
        request.respond(StreamsGroupDescribeResponse(throttle_time_ms=0, groups=told))

    gather = Gather(len(wanted), finish)
    for position, group_id in enumerate(wanted):
        try:
            shard = groups.shards.shard_of(group_id)
        except ApiError as error:
            gather.put(position, describe_error(group_id, error.code))
            continue
        request_id = shard.ask(request, gather.place(position))
        shard.submit(StreamsGroupDescribe(request_id, group_id, message.include_topology_description))
    return None

"""StreamsGroupDescribe: streams groups with their epochs, topologies and members. Kafka: KIP-1071."""

from kohort.broker.group.streams.commands import StreamsGroupDescribe, describe_error
from kohort.broker.handlers.groups.describing import describe_each
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.handlers.groups.group_operations import with_operations
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeDescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


def handle(
    groups: GroupServices, message: StreamsGroupDescribeRequest, request: Request
) -> StreamsGroupDescribeResponse | None:
    """Ask every group's shard; answered when all have answered."""
    if not message.group_ids or groups.internal_topics is None:
        wanted = dict.fromkeys(message.group_ids)
        refused = tuple(describe_error(each, ErrorCode.UNSUPPORTED_VERSION) for each in wanted)
        return StreamsGroupDescribeResponse(throttle_time_ms=0, groups=refused)

    def finish(found: tuple[StreamsGroupDescribeDescribedGroup, ...]) -> None:
        told = with_operations(found, asked=message.include_authorized_operations)
        request.respond(StreamsGroupDescribeResponse(throttle_time_ms=0, groups=told))

    describe_each(
        groups.shards,
        message.group_ids,
        request,
        command=lambda request_id, group_id: StreamsGroupDescribe(
            request_id, group_id, message.include_topology_description
        ),
        refused=describe_error,
        finish=finish,
    )
    return None

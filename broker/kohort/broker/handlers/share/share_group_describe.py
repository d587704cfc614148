"""ShareGroupDescribe: share groups with their epochs and members. Kafka: KafkaApis, KIP-932."""

from typing import cast

from kohort.broker.group.share.commands import ShareGroupDescribe, describe_error
from kohort.broker.handlers.gather import Gather
from kohort.broker.handlers.share.family import ShareServices
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.share_group_describe import (
    ShareGroupDescribeDescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from kohort.protocol.schema import Message


def handle(
    sharing: ShareServices, message: ShareGroupDescribeRequest, request: Request
) -> ShareGroupDescribeResponse | None:
    """Ask every group's shard; answered when all have answered."""
    groups = sharing.groups
    wanted = tuple(dict.fromkeys(message.group_ids))  # A large group named a thousand times is answered once.
    if not wanted or not sharing.is_enabled:
        refused = tuple(describe_error(each, ErrorCode.UNSUPPORTED_VERSION) for each in wanted)
        return ShareGroupDescribeResponse(throttle_time_ms=0, groups=refused)

    def finish(described: tuple[Message, ...]) -> None:
        found = cast("tuple[ShareGroupDescribeDescribedGroup, ...]", described)
        request.respond(ShareGroupDescribeResponse(throttle_time_ms=0, groups=found))

    snapshot = groups.metadata.snapshot()
    gather = Gather(len(wanted), finish)
    for position, group_id in enumerate(wanted):
        try:
            shard = groups.shards.shard_of(group_id)
        except ApiError as error:
            gather.put(position, describe_error(group_id, error.code))
            continue
        request_id = shard.ask(request, gather.place(position))
        shard.submit(ShareGroupDescribe(request_id, group_id, snapshot))
    return None

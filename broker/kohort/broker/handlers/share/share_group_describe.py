"""ShareGroupDescribe: share groups with their epochs and members. Kafka: KafkaApis, KIP-932."""

from kohort.broker.group.share.commands import ShareGroupDescribe, describe_error
from kohort.broker.handlers.groups.describing import describe_each
from kohort.broker.handlers.share.family import ShareServices
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.share_group_describe import (
    ShareGroupDescribeDescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


def handle(
    sharing: ShareServices, message: ShareGroupDescribeRequest, request: Request
) -> ShareGroupDescribeResponse | None:
    """Ask every group's shard; answered when all have answered."""
    groups = sharing.groups
    if not message.group_ids or not sharing.is_enabled:
        wanted = dict.fromkeys(message.group_ids)
        refused = tuple(describe_error(each, ErrorCode.UNSUPPORTED_VERSION) for each in wanted)
        return ShareGroupDescribeResponse(throttle_time_ms=0, groups=refused)

    def finish(found: tuple[ShareGroupDescribeDescribedGroup, ...]) -> None:
        request.respond(ShareGroupDescribeResponse(throttle_time_ms=0, groups=found))

    snapshot = groups.metadata.snapshot()
    describe_each(
        groups.shards,
        message.group_ids,
        request,
        command=lambda request_id, group_id: ShareGroupDescribe(request_id, group_id, snapshot),
        refused=describe_error,
        finish=finish,
    )
    return None

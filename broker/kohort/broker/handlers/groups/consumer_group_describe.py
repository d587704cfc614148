"""ConsumerGroupDescribe: consumer groups with their epochs and members. Kafka: KafkaApis, KIP-848."""

from kohort.broker.group.consumer.commands import ConsumerGroupDescribe, describe_error
from kohort.broker.handlers.groups.describing import describe_each
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.handlers.groups.group_operations import with_operations
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeDescribedGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)


def handle(
    groups: GroupServices, message: ConsumerGroupDescribeRequest, request: Request
) -> ConsumerGroupDescribeResponse | None:
    """Ask every group's shard; answered when all have answered."""
    if not message.group_ids or not groups.has_consumer_groups:
        wanted = dict.fromkeys(message.group_ids)
        refused = tuple(describe_error(each, ErrorCode.UNSUPPORTED_VERSION) for each in wanted)
        return ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=refused)

    def finish(found: tuple[ConsumerGroupDescribeDescribedGroup, ...]) -> None:
        told = with_operations(found, asked=message.include_authorized_operations)
        request.respond(ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=told))

    snapshot = groups.metadata.snapshot()
    describe_each(
        groups.shards,
        message.group_ids,
        request,
        command=lambda request_id, group_id: ConsumerGroupDescribe(request_id, group_id, snapshot),
        refused=describe_error,
        finish=finish,
    )
    return None

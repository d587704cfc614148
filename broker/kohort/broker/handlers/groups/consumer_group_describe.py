"""ConsumerGroupDescribe: consumer groups with their epochs and members. Kafka: KafkaApis, KIP-848."""

from typing import cast

from kohort.broker.group.consumer.commands import ConsumerGroupDescribe, describe_error
from kohort.broker.handlers.gather import Gather
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.handlers.groups.group_operations import with_operations
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeDescribedGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kohort.protocol.schema import Message


def handle(
    groups: GroupServices, message: ConsumerGroupDescribeRequest, request: Request
) -> ConsumerGroupDescribeResponse | None:
    """Ask every group's shard; answered when all have answered."""
    wanted = tuple(dict.fromkeys(message.group_ids))  # A large group named a thousand times is answered once.
    if not wanted or not groups.has_consumer_groups:
        refused = tuple(describe_error(each, ErrorCode.UNSUPPORTED_VERSION) for each in wanted)
        return ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=refused)

    def finish(described: tuple[Message, ...]) -> None:
        found = cast("tuple[ConsumerGroupDescribeDescribedGroup, ...]", described)
        told = with_operations(found, asked=message.include_authorized_operations)
        request.respond(ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=told))

    snapshot = groups.metadata.snapshot()
    gather = Gather(len(wanted), finish)
    for position, group_id in enumerate(wanted):
        try:
            shard = groups.shards.shard_of(group_id)
        except ApiError as error:
            gather.put(position, describe_error(group_id, error.code))
            continue
        request_id = shard.ask(request, gather.place(position))
        shard.submit(ConsumerGroupDescribe(request_id, group_id, snapshot))
    return None

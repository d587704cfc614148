"""ConsumerGroupHeartbeat: all that a member of a consumer group says. Kafka: KafkaApis, KIP-848."""

from kohort.broker.group import NO_REQUEST
from kohort.broker.group.consumer.commands import ConsumerGroupHeartbeat
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.protocol.schema import Message


def handle(groups: GroupServices, message: ConsumerGroupHeartbeatRequest, request: Request) -> Message | None:
    """Submit the heartbeat with the current metadata; answered when its changes are durable."""

    def command(request_id: int) -> ConsumerGroupHeartbeat:
        return ConsumerGroupHeartbeat(
            request_id,
            message,
            request.version,
            message.member_id or groups.fresh_id(),
            request.client_id or "",
            request.client_host,
            groups.metadata.snapshot(),
            request.permissions.may_describe,
        )

    if not groups.has_consumer_groups:
        return command(NO_REQUEST).refused(ErrorCode.UNSUPPORTED_VERSION)
    try:
        shard = groups.shards.shard_of(message.group_id)
    except ApiError as error:
        return command(NO_REQUEST).refused(error.code)
    shard.submit(command(shard.ask(request, request.respond)))
    return None

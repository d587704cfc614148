"""ShareGroupHeartbeat: all that a member of a share group says. Kafka: KafkaApis, KIP-932."""

from kohort.broker.group import NO_REQUEST
from kohort.broker.group.share.commands import ShareGroupHeartbeat, heartbeat_error
from kohort.broker.handlers.share.family import ShareServices
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kohort.protocol.schema import Message


def handle(sharing: ShareServices, message: ShareGroupHeartbeatRequest, request: Request) -> Message | None:
    """Submit the heartbeat with the current metadata; answered when its changes are durable.

    Partitions that the group has yet to get are made ready after that.
    """
    if not sharing.is_enabled:
        return heartbeat_error(ErrorCode.UNSUPPORTED_VERSION)
    groups = sharing.groups

    def command(request_id: int) -> ShareGroupHeartbeat:
        return ShareGroupHeartbeat(
            request_id, message, request.client_id or "", request.client_host, groups.metadata.snapshot()
        )

    def answer(response: Message) -> None:
        request.respond(response)
        sharing.shares().make_ready(message.group_id)

    try:
        shard = groups.shards.shard_of(message.group_id)
    except ApiError as error:
        return command(NO_REQUEST).refused(error.code)
    shard.submit(command(shard.ask(request, answer)))
    return None

"""Heartbeat of a member. Kafka: KafkaApis.handleHeartbeatRequest."""

from kohort.broker.group import NO_REQUEST, Heartbeat
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.schema import Message


def handle(groups: GroupServices, message: HeartbeatRequest, request: Request) -> Message | None:
    """Pass the heartbeat on."""
    try:
        shard = groups.shards.shard_of(message.group_id)
    except ApiError as error:
        return groups.shards.refusal(Heartbeat(NO_REQUEST, message), error.code)
    shard.submit(Heartbeat(shard.ask(request, request.respond), message))
    return None

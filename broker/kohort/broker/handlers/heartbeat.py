"""Heartbeat: a member lives. Kafka: KafkaApis.handleHeartbeatRequest."""

from typing import TYPE_CHECKING

from kohort.broker.group import NO_REQUEST, Heartbeat, refusal
from kohort.protocol.errors import ApiError
from kohort.protocol.messages import HeartbeatRequest
from kohort.protocol.schema import Message

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.runtime.request import Request


def handle(broker: "Broker", message: HeartbeatRequest, request: "Request") -> Message | None:
    """Pass the heartbeat on."""
    try:
        shard = broker.coordinators.shard_of(message.group_id)
    except ApiError as error:
        return refusal(Heartbeat(NO_REQUEST, message), error.code)
    shard.submit(Heartbeat(shard.ask(request, request.respond), message))
    return None

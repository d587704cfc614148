"""LeaveGroup: members go at once. Kafka: KafkaApis.handleLeaveGroupRequest, KIP-345, KIP-800."""

from typing import TYPE_CHECKING

from kohort.broker.group import NO_REQUEST, LeaveGroup, refusal
from kohort.protocol.errors import ApiError
from kohort.protocol.messages import LeaveGroupRequest
from kohort.protocol.schema import Message

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.runtime.request import Request


def handle(broker: "Broker", message: LeaveGroupRequest, request: "Request") -> Message | None:
    """Pass the goodbye on."""
    try:
        shard = broker.coordinators.shard_of(message.group_id)
    except ApiError as error:
        return refusal(LeaveGroup(NO_REQUEST, message, request.version), error.code)
    shard.submit(LeaveGroup(shard.ask(request, request.respond), message, request.version))
    return None

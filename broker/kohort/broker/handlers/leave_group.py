"""LeaveGroup: members go at once. Kafka: KafkaApis.handleLeaveGroupRequest, KIP-345, KIP-800."""

from typing import TYPE_CHECKING

from kohort.broker.group import LeaveGroup
from kohort.protocol.errors import ApiError
from kohort.protocol.messages import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.runtime.request import Request


def handle(broker: "Broker", message: LeaveGroupRequest, request: "Request") -> LeaveGroupResponse | None:
    """Pass the goodbye on."""
    try:
        shard = broker.coordinators.shard_of(message.group_id)
    except ApiError as error:
        return LeaveGroupResponse(error_code=error.code, members=())
    shard.submit(LeaveGroup(shard.ask(request, request.respond), message, request.version))
    return None

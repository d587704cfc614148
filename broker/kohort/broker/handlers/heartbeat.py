"""Heartbeat: a member lives. Kafka: KafkaApis.handleHeartbeatRequest."""

from typing import TYPE_CHECKING

from kohort.broker.group import Heartbeat
from kohort.protocol.errors import ApiError
from kohort.protocol.messages import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.runtime.request import Request


def handle(broker: "Broker", message: HeartbeatRequest, request: "Request") -> HeartbeatResponse | None:
    """Pass the heartbeat on."""
    try:
        shard = broker.coordinators.shard_of(message.group_id)
    except ApiError as error:
        return HeartbeatResponse(error_code=error.code)
    shard.submit(Heartbeat(shard.ask(request, request.respond), message))
    return None

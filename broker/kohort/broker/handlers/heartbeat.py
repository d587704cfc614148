"""Heartbeat: a member lives. Kafka: KafkaApis.handleHeartbeatRequest."""

from typing import TYPE_CHECKING

from kohort.broker.group import Heartbeat
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.runtime.request import Request


def handle(broker: "Broker", message: HeartbeatRequest, request: "Request") -> HeartbeatResponse | None:
    """Pass the heartbeat on."""
    try:
        shard = broker.coordinators.shard_of(message.group_id)
    except ApiError as error:
        # While its group loads a member lives on: Kafka tells it that all is well.
        is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error.code)
    shard.submit(Heartbeat(shard.ask(request, request.respond), message))
    return None

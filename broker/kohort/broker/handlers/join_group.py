"""JoinGroup: a member asks to be in the next generation. Kafka: KafkaApis.handleJoinGroupRequest."""

from typing import TYPE_CHECKING
from uuid import uuid4

from kohort.broker.group import JoinGroup
from kohort.protocol.errors import ApiError
from kohort.protocol.messages import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.runtime.request import Request

NO_PROTOCOL_NULLABLE_FROM = 7  # Before it the protocol name of an error is the empty string.


def handle(broker: "Broker", message: JoinGroupRequest, request: "Request") -> JoinGroupResponse | None:
    """Pass the join on; the core answers it, perhaps only when the whole group has joined."""
    try:
        shard = broker.coordinators.shard_of(message.group_id)
    except ApiError as error:
        no_protocol = None if request.version >= NO_PROTOCOL_NULLABLE_FROM else ""
        return JoinGroupResponse(
            error_code=error.code,
            member_id=message.member_id,
            protocol_name=no_protocol,
            leader="",
            members=(),
        )
    client_id = request.client_id or ""
    fresh_id = f"{message.group_instance_id or client_id}-{uuid4()}"
    request_id = shard.ask(request, request.respond)
    shard.submit(JoinGroup(request_id, message, request.version, fresh_id, client_id, request.client_host))
    return None

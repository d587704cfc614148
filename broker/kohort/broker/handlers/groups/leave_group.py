"""LeaveGroup: members go at once. Kafka: KafkaApis.handleLeaveGroupRequest, KIP-345, KIP-800."""

from kohort.broker.group import NO_REQUEST, LeaveGroup
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError
from kohort.protocol.messages.leave_group import LeaveGroupRequest
from kohort.protocol.schema import Message


def handle(groups: GroupServices, message: LeaveGroupRequest, request: Request) -> Message | None:
    """Pass the goodbye on."""
    try:
        shard = groups.shards.shard_of(message.group_id)
    except ApiError as error:
        return groups.shards.refusal(LeaveGroup(NO_REQUEST, message, request.version), error.code)
    shard.submit(LeaveGroup(shard.ask(request, request.respond), message, request.version))
    return None

"""JoinGroup: a member asks to be in the next generation. Kafka: KafkaApis.handleJoinGroupRequest."""

from kohort.broker.group import NO_REQUEST, JoinGroup
from kohort.broker.handlers.groups.closing import track_member_connection
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError
from kohort.protocol.messages.join_group import JoinGroupRequest
from kohort.protocol.schema import Message

MAX_PREFIX_CHARACTERS = 249  # The longest group.instance.id of Kafka's clients.


def handle(groups: GroupServices, message: JoinGroupRequest, request: Request) -> Message | None:
    """Pass the join on; the core answers it, perhaps only when the whole group has joined."""
    try:
        shard = groups.shards.shard_of(message.group_id)
    except ApiError as error:
        return groups.shards.refusal(_command(groups, message, request, NO_REQUEST), error.code)
    if message.member_id:
        track_member_connection(request, groups.shards, shard, message.group_id, message.member_id)
    shard.submit(_command(groups, message, request, shard.ask(request, request.respond)))
    return None


def _command(
    groups: GroupServices, message: JoinGroupRequest, request: Request, request_id: int
) -> JoinGroup:
    client_id = request.client_id or ""
    member_id = message.member_id
    if not member_id:
        # Cut, so that every answer has room for it, and the one to the leader for those of all members.
        prefix = (message.group_instance_id or client_id)[:MAX_PREFIX_CHARACTERS]
        member_id = f"{prefix}-{groups.fresh_id()}"
    return JoinGroup(
        request_id,
        message,
        request.version,
        member_id,
        client_id,
        request.client_host,
        groups.metadata.snapshot(),
        request.permissions.may_describe,
    )

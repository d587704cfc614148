"""SyncGroup: the leader hands the assignment out, everyone gets theirs. Kafka: handleSyncGroupRequest."""

from kohort.broker.group import NO_REQUEST, SyncGroup
from kohort.broker.handlers.groups.closing import track_member_connection
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError
from kohort.protocol.messages.sync_group import SyncGroupRequest
from kohort.protocol.schema import Message


def handle(groups: GroupServices, message: SyncGroupRequest, request: Request) -> Message | None:
    """Pass the sync on; it is answered when the leader's assignment is durable."""
    try:
        shard = groups.shards.shard_of(message.group_id)
    except ApiError as error:
        return groups.shards.refusal(SyncGroup(NO_REQUEST, message, request.version), error.code)
    track_member_connection(request, groups.shards, shard, message.group_id, message.member_id)
    request_id = shard.ask(request, request.respond)
    shard.submit(SyncGroup(request_id, message, request.version, groups.metadata.snapshot()))
    return None

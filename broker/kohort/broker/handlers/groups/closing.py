"""Reports closed connections of members: a process that dies sends nothing else."""

from kohort.broker.coordination.group_shards import GroupShard, GroupShards
from kohort.broker.group import ConnectionClosed
from kohort.broker.group.classic.group import ClassicGroup
from kohort.broker.transport.request import Request

MEMBERS_MAX = 64  # For one connection; with more members on it, some of their ends are not reported.


class ConnectionMembers:
    """The members whose requests come over one connection; called when it closes."""

    __slots__ = ("_members", "_shards")

    def __init__(self, shards: GroupShards) -> None:
        self._shards = shards
        self._members: dict[tuple[str, str], None] = {}

    def add(self, group_id: str, member_id: str) -> None:
        """Remember a member."""
        self._members.pop((group_id, member_id), None)
        self._members[group_id, member_id] = None
        if len(self._members) > MEMBERS_MAX:
            del self._members[next(iter(self._members))]

    def __call__(self) -> None:
        """Tell their groups."""
        for group_id, member_id in self._members:
            self._shards.submit_if_active(group_id, ConnectionClosed(group_id, member_id))


def track_member_connection(
    request: Request, shards: GroupShards, shard: GroupShard, group_id: str, member_id: str
) -> None:
    """Tell the group when the connection of this request closes, if the group knows the member."""
    group = shard.core.find(group_id, ClassicGroup)
    member = None if group is None else group.members.get(member_id)
    if group is None or member is None:
        return
    on_close = request.connection.on_close
    for each in on_close:
        if isinstance(each, ConnectionMembers):
            each.add(group.group_id, member.member_id)
            return
    speakers = ConnectionMembers(shards)
    on_close.append(speakers)
    speakers.add(group.group_id, member.member_id)

"""The commands of members, administrators, and timers.

`request_id` is the shell's id of the request, unique among those in flight and not negative.
`message` is the decoded request. Each command's docstring says which message answers it.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar
from uuid import UUID

import msgspec

from kohort.broker.group.decision import TimerKey
from kohort.broker.group.group import CLASSIC
from kohort.broker.group.metadata import Metadata
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest
from kohort.protocol.messages.leave_group import LeaveGroupRequest
from kohort.protocol.messages.offset_commit import OffsetCommitRequest
from kohort.protocol.messages.offset_delete import OffsetDeleteRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from kohort.protocol.messages.sync_group import SyncGroupRequest
from kohort.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

NO_REQUEST = -1
"""The request id of a command that is refused before it reaches the core."""


class JoinGroup(msgspec.Struct, frozen=True, gc=False):
    """Become a member of the next generation: JoinGroupResponse, perhaps much later.

    `member_id` is an unused id that the core may give the member: client id (for a static member its
    group.instance.id), a dash, a UUID; or the id in the request. A consumer group uses the
    `metadata`.
    """

    request_id: int
    message: JoinGroupRequest
    version: int
    member_id: str
    client_id: str
    client_host: str
    metadata: Metadata | None
    may_describe: Callable[[str], bool]
    """The topics that an expression of the group may match."""


class SyncGroup(msgspec.Struct, frozen=True, gc=False):
    """Hand out or wait for the assignment: SyncGroupResponse, perhaps later.

    Without a `version` the message may leave out its protocol, as versions before 5 do. A consumer group
    uses the `metadata`.
    """

    request_id: int
    message: SyncGroupRequest
    version: int = 0
    metadata: Metadata | None = None


class Heartbeat(msgspec.Struct, frozen=True, gc=False):
    """A member's heartbeat: HeartbeatResponse."""

    request_id: int
    message: HeartbeatRequest


class LeaveGroup(msgspec.Struct, frozen=True, gc=False):
    """Remove members at once: LeaveGroupResponse. Below version 3 the message names one member."""

    request_id: int
    message: LeaveGroupRequest
    version: int


class OffsetCommit(msgspec.Struct, frozen=True, gc=False):
    """Keep offsets: OffsetCommitResponse. Topics carry their names; ids are kept and echoed.

    `topic_ids` are those of the topics that the message names, in its order, where it has no ids itself.
    """

    request_id: int
    message: OffsetCommitRequest
    version: int
    topic_ids: tuple[UUID, ...] = ()


class OffsetFetch(msgspec.Struct, frozen=True, gc=False):
    """Look offsets up: OffsetFetchResponseGroup, one command per group. `topics` None means all.

    Offsets of a deleted topic, whose name another one has in `metadata`, are not returned.
    """

    request_id: int
    group: OffsetFetchRequestGroup
    require_stable: bool = False
    metadata: Metadata | None = None


class TxnOffsetCommit(msgspec.Struct, frozen=True, gc=False):
    """Keep offsets that count once a transaction is committed: TxnOffsetCommitResponse."""

    request_id: int
    message: TxnOffsetCommitRequest


class EndOffsets(msgspec.Struct, frozen=True, gc=False):
    """End a transaction here, with its marker in the log: AddOffsetsToTxnResponse, only a code."""

    request_id: int
    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int


class DescribeGroup(msgspec.Struct, frozen=True, gc=False):
    """Describe a group: DescribedGroup."""

    group_type: ClassVar[str] = CLASSIC
    request_id: int
    group_id: str
    version: int


class ListGroups(msgspec.Struct, frozen=True, gc=False):
    """List this shard's groups: ListGroupsResponse. Filters ignore case; empty ones match all."""

    request_id: int
    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


class DeleteGroup(msgspec.Struct, frozen=True, gc=False):
    """Delete a group that has no members: DeletableGroupResult."""

    request_id: int
    group_id: str


class OffsetDelete(msgspec.Struct, frozen=True, gc=False):
    """Delete offsets of topics that no member of the group subscribes to: OffsetDeleteResponse."""

    request_id: int
    message: OffsetDeleteRequest


class TimerFired(msgspec.Struct, frozen=True, gc=False):
    """The time of a `SetTimer` has come. Not answered."""

    key: TimerKey


class RequestLost(msgspec.Struct, frozen=True, gc=False):
    """The client of a parked request went away: it counts on, but is never answered."""

    group_type: ClassVar[str] = CLASSIC
    request_id: int


class ConnectionClosed(msgspec.Struct, frozen=True, gc=False):
    """The connection has closed over which a member spoke: it may come back over another. Not answered."""

    group_type: ClassVar[str] = CLASSIC
    group_id: str
    member_id: str


class TopicsDeleted(msgspec.Struct, frozen=True):
    """Topics are gone, and with them every group's offsets of them. Not answered.

    `names` are deleted topics: all their offsets are removed. `topic_ids` are of existing topics, by name: an
    offset with another id is of a deleted topic, and one with this id stays.
    """

    names: frozenset[str]
    topic_ids: Mapping[str, UUID] = {}


class ExpireOffsets(msgspec.Struct, frozen=True, gc=False):
    """Remove offsets past their retention; the shell sends it periodically. Not answered."""


Command = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | OffsetFetch
    | TxnOffsetCommit
    | EndOffsets
    | DescribeGroup
    | ListGroups
    | DeleteGroup
    | OffsetDelete
    | TimerFired
    | RequestLost
    | ConnectionClosed
    | TopicsDeleted
    | ExpireOffsets
)

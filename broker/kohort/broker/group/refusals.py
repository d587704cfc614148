"""The answers of a shard that can't serve: it loads, its log failed, or another broker leads it."""

from collections.abc import Callable
from typing import Any

from kohort.broker.group.classic.leaving import leave_answer
from kohort.broker.group.classic.parking import join_error, sync_error
from kohort.broker.group.commands import (
    DeleteGroup,
    DescribeGroup,
    EndOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
    TxnOffsetCommit,
)
from kohort.broker.group.offsets.commits import commit_error
from kohort.broker.group.offsets.transactions import transactional_commit_error
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kohort.protocol.messages.delete_groups import DeletableGroupResult
from kohort.protocol.messages.describe_groups import DescribedGroup
from kohort.protocol.messages.heartbeat import HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupResponse
from kohort.protocol.messages.list_groups import ListGroupsResponse
from kohort.protocol.messages.offset_delete import OffsetDeleteResponse
from kohort.protocol.messages.offset_fetch import OffsetFetchResponseGroup
from kohort.protocol.messages.sync_group import SyncGroupResponse
from kohort.protocol.schema import Message


def refusal(command: object, code: ErrorCode) -> Message | None:
    """Return the answer with `code` for the command's sender; None without one.

    Commands about newer kinds of groups know their own.

    For commands that never reached the core, and for those whose records could not be flushed.
    """
    refuse = _REFUSALS.get(type(command))
    if refuse is not None:
        return refuse(command, code)
    of_newer_kind: Callable[[ErrorCode], Message] | None = getattr(command, "refused", None)
    return None if of_newer_kind is None else of_newer_kind(code)


def refused_instead(message: Message, code: ErrorCode) -> Message | None:
    """Return the answer for a member instead of the one that another member's command was to give.

    None where that is no answer of the kind.
    """
    if isinstance(message, SyncGroupResponse):
        return sync_error(code)
    if isinstance(message, JoinGroupResponse):
        return join_error(code, message.member_id, version=0)  # Every version may have an empty name.
    return None


def _join(command: JoinGroup, code: ErrorCode) -> Message:
    return join_error(code, command.message.member_id, command.version)


def _sync(_command: SyncGroup, code: ErrorCode) -> Message:
    return sync_error(code)


def _heartbeat(_command: Heartbeat, code: ErrorCode) -> Message:
    # While a shard loads its members stay alive: as in Kafka their heartbeats succeed.
    is_loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(throttle_time_ms=0, error_code=ErrorCode.NONE if is_loading else code)


def _leave(_command: LeaveGroup, code: ErrorCode) -> Message:
    return leave_answer(code)


def _commit(command: OffsetCommit, code: ErrorCode) -> Message:
    return commit_error(command.message, code)


def _commit_in_transaction(command: TxnOffsetCommit, code: ErrorCode) -> Message:
    return transactional_commit_error(command.message, code)


def _end_offsets(_command: EndOffsets, code: ErrorCode) -> Message:
    return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=code)


def _fetch(command: OffsetFetch, code: ErrorCode) -> Message:
    return OffsetFetchResponseGroup(group_id=command.group.group_id, topics=(), error_code=code)


def _describe(command: DescribeGroup, code: ErrorCode) -> Message:
    return DescribedGroup(
        error_code=code,
        group_id=command.group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=(),
    )


def _list(_command: ListGroups, code: ErrorCode) -> Message:
    return ListGroupsResponse(throttle_time_ms=0, error_code=code, groups=())


def _delete(command: DeleteGroup, code: ErrorCode) -> Message:
    return DeletableGroupResult(group_id=command.group_id, error_code=code)


def _delete_offsets(_command: OffsetDelete, code: ErrorCode) -> Message:
    return OffsetDeleteResponse(error_code=code, throttle_time_ms=0, topics=())


_REFUSALS: dict[type, Callable[[Any, ErrorCode], Message]] = {
    JoinGroup: _join,
    SyncGroup: _sync,
    Heartbeat: _heartbeat,
    LeaveGroup: _leave,
    OffsetCommit: _commit,
    OffsetFetch: _fetch,
    TxnOffsetCommit: _commit_in_transaction,
    EndOffsets: _end_offsets,
    DescribeGroup: _describe,
    ListGroups: _list,
    DeleteGroup: _delete,
    OffsetDelete: _delete_offsets,
}

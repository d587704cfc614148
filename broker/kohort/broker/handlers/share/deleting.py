"""Deletes a share group, or some of its topics: first in the group's log, then the state of their partitions.

A crash between the two leaves state that nobody reads. An existing group has to be empty. The group may move
to another broker between two steps. The answer is then NOT_COORDINATOR, so that the client asks that broker.
The core of a shard that is not active has no groups, and would say that the group does not exist.
"""

from collections.abc import Callable, Iterable
from uuid import UUID

from kohort.broker.coordination.group_shards import GroupShard
from kohort.broker.coordination.shard import ShardState
from kohort.broker.coordination.shares import Shares
from kohort.broker.group import DeleteGroup
from kohort.broker.group.share.commands import ForgetShareState
from kohort.broker.group.share.group import ShareGroup
from kohort.broker.handlers.gather import Gather
from kohort.broker.share_state.commands import DeleteState
from kohort.broker.share_state.state import ShareKey
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.delete_groups import DeletableGroupResult
from kohort.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from kohort.protocol.messages.delete_share_group_state import DeleteShareGroupStatePartitionResult
from kohort.protocol.schema import Message

Codes = dict[ShareKey, ErrorCode]


def delete_share_group(
    shares: Shares, shard: GroupShard, group_id: str, request: Request, respond: Callable[[Message], None]
) -> None:
    """Answer with a DeletableGroupResult when the group and the state of its partitions are deleted."""
    group = shard.core.find(group_id, ShareGroup)
    assert group is not None, group_id

    def forgotten(code: ErrorCode, message: str | None, codes: Codes) -> None:
        failed = next((each for each in codes.values() if each is not ErrorCode.NONE), code)
        if failed is ErrorCode.NONE and shard.state is not ShardState.ACTIVE:
            failed = ErrorCode.NOT_COORDINATOR
        if failed is not ErrorCode.NONE:
            respond(DeletableGroupResult(group_id=group_id, error_code=failed, error_message=message))
        else:
            shard.submit(DeleteGroup(shard.ask(request, respond), group_id))

    forget_topics(
        shares, shard, group, {*group.initialized, *group.initializing}, request=request, finish=forgotten
    )


def forget_topics(
    shares: Shares,
    shard: GroupShard,
    group: ShareGroup,
    topic_ids: Iterable[UUID],
    *,
    request: Request,
    finish: Callable[[ErrorCode, str | None, Codes], None],
) -> None:
    """Delete an empty group's share partitions of these topics; `finish` gets the result."""
    gone = frozenset(topic_ids)
    keys = [
        ShareKey(group.group_id, topic_id, index)
        for topics in (group.initialized, group.initializing)
        for topic_id in sorted(topics)
        if topic_id in gone
        for index in sorted(topics[topic_id].partitions)
    ]

    def forgotten(answer: Message) -> None:
        assert isinstance(answer, DeleteShareGroupOffsetsResponse)
        if answer.error_code or not keys:
            finish(ErrorCode(answer.error_code), answer.error_message, {})
            return
        shares.partitions.end(keys)
        gather = Gather(len(keys), deleted)
        for position, key in enumerate(keys):
            shares.states.ask(key, _deletion(key), gather.place(position))

    def deleted(answers: tuple[Message, ...]) -> None:
        codes: Codes = {}
        for key, answer in zip(keys, answers, strict=True):
            assert isinstance(answer, DeleteShareGroupStatePartitionResult)
            codes[key] = ErrorCode(answer.error_code)
        finish(ErrorCode.NONE, None, codes)

    def begin() -> None:
        if shard.state is not ShardState.ACTIVE:
            finish(ErrorCode.NOT_COORDINATOR, None, {})
            return
        request_id = shard.ask(request, forgotten)
        shard.submit(ForgetShareState(request_id, group.group_id, gone))

    shares.when_kept(keys, begin, request)


def _deletion(key: ShareKey) -> Callable[[int], DeleteState]:
    return lambda request_id: DeleteState(request_id, key)

"""TxnOffsetCommit, and the end of its transaction.

Source: ClassicGroup.validateOffsetCommit; KIP-98, KIP-447.
"""

from kohort.broker.group.commands import EndOffsets, TxnOffsetCommit
from kohort.broker.group.decision import (
    Decision,
    Record,
    Reply,
    TransactionalWrite,
    TransactionEnd,
)
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.turn import ShardState
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kohort.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kohort.protocol.offsets_topic import OffsetCommitKey, OffsetCommitValue


def commit_in_transaction(groups: ShardState, command: TxnOffsetCommit, now_ms: int) -> Decision:
    """Return the records and the answer; metadata that is too long fails its partition alone."""
    message = command.message
    try:
        _check(groups.by_id.get(message.group_id), message)
    except ApiError as error:
        return Decision((), (Reply(command.request_id, transactional_commit_error(message, error.code)),))
    limit = groups.config.offset_metadata_max_bytes
    records: list[Record] = []
    topics: list[TxnOffsetCommitResponseTopic] = []
    for topic in message.topics:
        results: list[TxnOffsetCommitResponsePartition] = []
        for each in topic.partitions:
            code = ErrorCode.NONE
            if each.committed_metadata is not None and len(each.committed_metadata) > limit:
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                key = OffsetCommitKey(
                    group=message.group_id, topic=topic.name, partition=each.partition_index
                )
                value = OffsetCommitValue(
                    offset=each.committed_offset,
                    leader_epoch=each.committed_leader_epoch,
                    metadata=each.committed_metadata or "",
                    commit_timestamp=now_ms,
                    topic_id=topic.topic_id,
                )
                records.append(Record(key, value))
            results.append(
                TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            )
        topics.append(
            TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=tuple(results))
        )
    answer = Reply(command.request_id, TxnOffsetCommitResponse(throttle_time_ms=0, topics=tuple(topics)))
    if not records:
        return Decision((), (answer,))
    return Decision(
        tuple(records), (answer,), TransactionalWrite(message.producer_id, message.producer_epoch)
    )


def end_transaction(_groups: ShardState, command: EndOffsets, _now_ms: int) -> Decision:
    """Return the marker and the answer."""
    end = TransactionEnd(command.is_commit, command.coordinator_epoch)
    answer = AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=0)
    return Decision(
        (),
        (Reply(command.request_id, answer),),
        TransactionalWrite(command.producer_id, command.producer_epoch, end),
    )


def transactional_commit_error(message: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    """Return the answer that fails every partition of the request with `code`."""
    return TxnOffsetCommitResponse(
        throttle_time_ms=0,
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ),
            )
            for topic in message.topics
        ),
    )


def _check(group: AnyGroup | None, message: TxnOffsetCommitRequest) -> None:
    """Check that a commit is from a member of the group, or without one. Raises: ApiError."""
    if group is None:
        if message.generation_id_or_member_epoch >= 0:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        return
    if message.generation_id_or_member_epoch < 0 and group.is_empty:
        return
    if (
        message.generation_id_or_member_epoch < 0
        and not message.member_id
        and message.group_instance_id is None
    ):
        return
    group.check_transactional_commit(message)

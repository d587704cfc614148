"""TxnOffsetCommit: offsets that count once the transaction is committed (KIP-98, KIP-447, KIP-890).

Source: KafkaApis.handleTxnOffsetCommitRequest. A partition that does not exist fails alone.
"""

from uuid import UUID

from kohort.broker.coordination.transaction_wire import Addition
from kohort.broker.group import TxnOffsetCommit
from kohort.broker.handlers.transactions.family import TransactionServices
from kohort.broker.metadata import OFFSETS_TOPIC
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kohort.protocol.schema import ZERO_UUID, Message

FIRST_VERSION_THAT_ADDS = 5
TOPIC_IDS_FROM = 6
FIRST_VERSION_WITH_ABORTABLE = 4

Codes = dict[tuple[str, UUID, int], int]


def handle(
    transactions: TransactionServices, message: TxnOffsetCommitRequest, request: Request
) -> TxnOffsetCommitResponse | None:
    """Check that the transaction has the group, or see to it; then ask the group."""
    commit = _Commit(transactions, message, request)
    if not commit.known:
        return commit.answer({})
    is_added = request.version >= FIRST_VERSION_THAT_ADDS
    place = OFFSETS_TOPIC, transactions.groups.shards.index_of(message.group_id)
    addition = Addition(
        message.transactional_id, message.producer_id, message.producer_epoch, place, not is_added
    )
    transaction_partitions = transactions.shards().transaction_partitions
    ask = transaction_partitions.add if is_added else transaction_partitions.verify
    ask(addition, commit.go_on)
    return None


class _Commit:
    """One request in flight: its existing partitions, and their results."""

    def __init__(
        self, transactions: TransactionServices, message: TxnOffsetCommitRequest, request: Request
    ) -> None:
        self._transactions = transactions
        self._message = message
        self._request = request
        self._unknown: Codes = {}
        self.known = self._split()

    def _split(self) -> tuple[TxnOffsetCommitRequestTopic, ...]:
        """Return what exists, with its name and id; note the rest."""
        snapshot = self._transactions.groups.metadata.snapshot()
        by_id = self._request.version >= TOPIC_IDS_FROM
        missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        known: list[TxnOffsetCommitRequestTopic] = []
        for topic in self._message.topics:
            state = snapshot.topics_by_id.get(topic.topic_id) if by_id else snapshot.topics.get(topic.name)
            count = 0 if state is None else len(state.partitions)
            code = missing if state is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            kept = tuple(each for each in topic.partitions if 0 <= each.partition_index < count)
            for each in topic.partitions:
                if not 0 <= each.partition_index < count:
                    self._unknown[topic.name, topic.topic_id, each.partition_index] = code
            if state is not None and kept:
                known.append(
                    TxnOffsetCommitRequestTopic(name=state.name, topic_id=state.topic_id, partitions=kept)
                )
        return tuple(known)

    def go_on(self, code: ErrorCode | None) -> None:
        """Ask the group, or answer why that can't be."""
        message, groups = self._message, self._transactions.groups
        if code is None:
            try:
                shard = groups.shards.shard_of(message.group_id)
                shard.check_enough_replicas()
            except ApiError as error:
                code = error.code
            else:
                groups.counters.offset_commits += sum(len(each.partitions) for each in self.known)
                command = TxnOffsetCommitRequest(
                    transactional_id=message.transactional_id,
                    group_id=message.group_id,
                    producer_id=message.producer_id,
                    producer_epoch=message.producer_epoch,
                    generation_id_or_member_epoch=message.generation_id_or_member_epoch,
                    member_id=message.member_id,
                    group_instance_id=message.group_instance_id,
                    topics=self.known,
                )
                shard.submit(TxnOffsetCommit(shard.ask(self._request, self._answered), command))
                return
        self._request.respond(self.answer({}, code_for_producer(code, self._request.version)))

    def _answered(self, message: Message) -> None:
        assert isinstance(message, TxnOffsetCommitResponse)
        codes: Codes = {}
        by_id = self._request.version >= TOPIC_IDS_FROM
        for topic in message.topics:
            for each in topic.partitions:
                name, topic_id = ("", topic.topic_id) if by_id else (topic.name, ZERO_UUID)
                codes[name, topic_id, each.partition_index] = each.error_code
        self._request.respond(self.answer(codes))

    def answer(self, codes: Codes, code: int = 0) -> TxnOffsetCommitResponse:
        """Return the answer for every partition that was asked, in that order."""
        known = {**codes, **self._unknown}
        return TxnOffsetCommitResponse(
            throttle_time_ms=0,
            topics=tuple(
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        TxnOffsetCommitResponsePartition(
                            partition_index=each.partition_index,
                            error_code=known.get((topic.name, topic.topic_id, each.partition_index), code),
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in self._message.topics
            ),
        )


def code_for_producer(code: ErrorCode, version: int) -> ErrorCode:
    """Return the error code that a producer knows, for an error of its transaction."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_VERSION_THAT_ADDS:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # Older ones retry only for that.
    return code

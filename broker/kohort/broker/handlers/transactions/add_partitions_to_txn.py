"""AddPartitionsToTxn: a client adds partitions to its transaction; brokers add or verify those of many.

Source: KafkaApis.handleAddPartitionsToTxnRequest; KIP-98, KIP-890.
"""

from kohort.broker.coordination.transaction_wire import Addition
from kohort.broker.handlers.gather import Gather
from kohort.broker.handlers.transactions.family import TransactionServices
from kohort.broker.transactions.commands import AddPartitions
from kohort.broker.transactions.transaction import BUMPING_VERSION
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kohort.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kohort.protocol.schema import Message

BATCHED_FROM = 4
FIRST_VERSION_WITH_FENCED = 2
FIRST_VERSION_WITH_ABORTABLE = 5

Topics = tuple[AddPartitionsToTxnTopic, ...]


def handle(
    transactions: TransactionServices, message: AddPartitionsToTxnRequest, request: Request
) -> AddPartitionsToTxnResponse | None:
    """Add or verify; answered when additions are durable."""
    if request.version < BATCHED_FROM:
        asked: tuple[AddPartitionsToTxnTransaction, ...] = (
            AddPartitionsToTxnTransaction(
                transactional_id=message.v3_and_below_transactional_id,
                producer_id=message.v3_and_below_producer_id,
                producer_epoch=message.v3_and_below_producer_epoch,
                topics=message.v3_and_below_topics,
            ),
        )
    else:
        asked = tuple(message.transactions)
    if not asked:
        return AddPartitionsToTxnResponse(throttle_time_ms=0)

    def finish(results: tuple[Message, ...]) -> None:
        request.respond(_answer(results, request.version))

    gather = Gather(len(asked), finish)
    for position, each in enumerate(asked):
        if each.verify_only:
            gather.put(position, _verified(transactions, each, request.version))
        else:
            _add(transactions, each, request, gather, position)
    return None


def _answer(results: tuple[Message, ...], version: int) -> AddPartitionsToTxnResponse:
    found = tuple(each for each in results if isinstance(each, AddPartitionsToTxnResult))
    if version >= BATCHED_FROM:
        return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_transaction=found)
    (only,) = found
    return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=only.topic_results)


def _add(
    transactions: TransactionServices,
    asked: AddPartitionsToTxnTransaction,
    request: Request,
    gather: Gather,
    position: int,
) -> None:
    """Add a transaction's partitions, all of them or none."""
    missing = _missing(transactions, asked.topics)
    if missing:
        codes = {
            place: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if place in missing
            else ErrorCode.OPERATION_NOT_ATTEMPTED
            for place in _places(asked.topics)
        }
        gather.put(position, _result(asked, codes))
        return

    def respond(message: Message) -> None:
        assert isinstance(message, AddOffsetsToTxnResponse)
        code = _as_known(ErrorCode(message.error_code), request.version)
        gather.put(position, _result(asked, dict.fromkeys(_places(asked.topics), code)))

    try:
        shard = transactions.shards().deciding_shard_of(asked.transactional_id)
    except ApiError as error:
        gather.put(position, _result(asked, dict.fromkeys(_places(asked.topics), error.code)))
        return
    shard.submit(
        AddPartitions(
            shard.ask(request, respond),
            asked.transactional_id,
            asked.producer_id,
            asked.producer_epoch,
            frozenset(_places(asked.topics)),
            BUMPING_VERSION if request.version >= BATCHED_FROM else 0,
        )
    )


def _verified(
    transactions: TransactionServices, asked: AddPartitionsToTxnTransaction, version: int
) -> AddPartitionsToTxnResult:
    verify = transactions.shards().transaction_partitions.verify_here
    codes = {
        place: verify(Addition(asked.transactional_id, asked.producer_id, asked.producer_epoch, place, True))
        or ErrorCode.NONE
        for place in _places(asked.topics)
    }
    return _result(asked, {place: _as_known(code, version) for place, code in codes.items()})


def _places(topics: Topics) -> list[tuple[str, int]]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _missing(transactions: TransactionServices, topics: Topics) -> set[tuple[str, int]]:
    known = transactions.groups.metadata.snapshot().topics
    return {
        (name, index)
        for name, index in _places(topics)
        if name not in known or not 0 <= index < len(known[name].partitions)
    }


def _as_known(code: ErrorCode, version: int) -> ErrorCode:
    """Return the code as this version has it."""
    if code is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return code


def _result(
    asked: AddPartitionsToTxnTransaction, codes: dict[tuple[str, int], ErrorCode]
) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=asked.transactional_id,
        topic_results=tuple(
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=codes[topic.name, index]
                    )
                    for index in topic.partitions
                ),
            )
            for topic in asked.topics
        ),
    )

"""AddOffsetsToTxn: a group's partition of `__consumer_offsets` belongs to a transaction from now on."""

from kohort.broker.handlers.transactions.family import TransactionServices
from kohort.broker.metadata import OFFSETS_TOPIC
from kohort.broker.transactions.commands import AddPartitions
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kohort.protocol.schema import Message

FIRST_VERSION_WITH_FENCED = 2


def handle(
    transactions: TransactionServices, message: AddOffsetsToTxnRequest, request: Request
) -> AddOffsetsToTxnResponse | None:
    """Add the partition; answered once that is durable."""

    def respond(answer: Message) -> None:
        assert isinstance(answer, AddOffsetsToTxnResponse)
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.PRODUCER_FENCED and request.version < FIRST_VERSION_WITH_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        request.respond(AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=code))

    try:
        shard = transactions.shards().deciding_shard_of(message.transactional_id)
    except ApiError as error:
        return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=error.code)
    index = transactions.groups.shards.index_of(message.group_id)
    shard.submit(
        AddPartitions(
            shard.ask(request, respond),
            message.transactional_id,
            message.producer_id,
            message.producer_epoch,
            frozenset(((OFFSETS_TOPIC, index),)),
            0,
        )
    )
    return None

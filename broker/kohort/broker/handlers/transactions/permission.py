"""Whether a producer may write to a partition: only within its transaction (KIP-890).

Older clients have told the coordinator before, and it is asked whether they have. Newer ones leave that to
the broker that they write to, which tells the coordinator, and goes on once that is durable.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kohort.broker.transactions.commands import AddPartitions
from kohort.broker.transactions.coordinator import BUMPING_VERSION
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages import AddOffsetsToTxnResponse
from kohort.protocol.schema import Message

if TYPE_CHECKING:
    from kohort.broker.coordination.transaction_coordinators import TransactionCoordinators
    from kohort.broker.transactions.transaction import Place

Answered = Callable[[ErrorCode | None], None]


def add_partition(
    coordinators: "TransactionCoordinators",
    request: Request,
    *,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    place: "Place",
    answered: Answered,
) -> None:
    """Let a partition belong to a transaction, and call `answered` in the order of the calls.

    It is called with None where the partition belongs to it still.
    """

    def respond(message: Message) -> None:
        assert isinstance(message, AddOffsetsToTxnResponse)
        code = ErrorCode(message.error_code)
        if code is ErrorCode.NONE:  # Since then the transaction may have been ended by its time.
            answered(coordinators.verify(transactional_id, producer_id, producer_epoch, place))
        else:
            answered(code)

    try:
        shard = coordinators.shard_of(transactional_id)
    except ApiError as error:
        answered(error.code)
        return
    shard.submit(
        AddPartitions(
            shard.ask(request, respond),
            transactional_id,
            producer_id,
            producer_epoch,
            frozenset((place,)),
            BUMPING_VERSION,
        )
    )

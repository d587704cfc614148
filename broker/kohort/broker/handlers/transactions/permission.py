"""Whether a producer may write to a partition: only within its transaction (KIP-890).

Older clients have told the coordinator before, and it is asked whether they have. Newer ones leave that to
the broker that they write to, which tells the coordinator, and goes on once that is durable.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kohort.broker.coordination.transaction_markers import Dropped
from kohort.broker.transactions.commands import AddPartitions
from kohort.broker.transactions.transaction import BUMPING_VERSION
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kohort.protocol.schema import Message

if TYPE_CHECKING:
    from kohort.broker.coordination.transaction_shards import TransactionShards
    from kohort.broker.transactions.transaction import Place

Answered = Callable[[ErrorCode | None], None]


def verify_partition(
    shards: "TransactionShards",
    *,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    place: "Place",
    answered: Answered,
) -> None:
    """Call `answered` with why a partition is not part of a transaction, with None where it is.

    At once where this broker coordinates it; else in the order of the calls.
    """
    if shards.is_coordinated_here(transactional_id):
        answered(shards.verify(transactional_id, producer_id, producer_epoch, place))
    else:
        shards.ask_coordinator(
            transactional_id, producer_id, producer_epoch, place, answered, verify_only=True
        )


def add_partition(
    shards: "TransactionShards",
    *,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    place: "Place",
    answered: Answered,
) -> None:
    """Let a partition belong to a transaction; call `answered` with None where it belongs to it still.

    While the producer's last transaction is being ended it is tried again, for as long as the settings say.
    Source: AddPartitionsToTxnManager.
    """
    began_ms = shards.now_ms()

    def heard(code: ErrorCode | None) -> None:
        if code is not ErrorCode.CONCURRENT_TRANSACTIONS or not shards.when_ended(
            transactional_id, began_ms, ask
        ):
            answered(code)

    def ask() -> None:
        if shards.is_coordinated_here(transactional_id):
            _add_here(shards, transactional_id, producer_id, producer_epoch, place, heard)
        else:
            shards.ask_coordinator(
                transactional_id, producer_id, producer_epoch, place, heard, verify_only=False
            )

    ask()


def _add_here(  # noqa: PLR0917  # As the protocol has them.
    shards: "TransactionShards",
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    place: "Place",
    answered: Answered,
) -> None:
    def respond(message: Message) -> None:
        assert isinstance(message, AddOffsetsToTxnResponse)
        code = ErrorCode(message.error_code)
        if code is ErrorCode.NONE:  # Since then the transaction may have been ended by its time.
            answered(shards.verify(transactional_id, producer_id, producer_epoch, place))
        else:
            answered(code)

    try:
        shard = shards.deciding_shard_of(transactional_id)
    except ApiError as error:
        answered(error.code)
        return
    shard.submit(
        AddPartitions(
            shard.ask(Dropped(answered), respond),
            transactional_id,
            producer_id,
            producer_epoch,
            frozenset((place,)),
            BUMPING_VERSION,
        )
    )

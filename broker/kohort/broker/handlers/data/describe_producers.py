"""DescribeProducers: the idempotent producers that each partition remembers (KIP-664)."""

from kohort.broker.handlers.data.family import Data
from kohort.broker.partitions.partition import Partition
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError
from kohort.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(data: Data, message: DescribeProducersRequest, request: Request) -> DescribeProducersResponse:
    """Return the producers of each partition, once, however often it is named."""
    wanted: dict[str, dict[int, None]] = {}
    for topic in message.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return DescribeProducersResponse(
        throttle_time_ms=0,
        topics=tuple(
            TopicResponse(name=name, partitions=tuple(_answer(data, name, index) for index in indexes))
            for name, indexes in wanted.items()
        ),
    )


def _producers(partition: Partition) -> tuple[ProducerState, ...]:
    return tuple(
        ProducerState(
            producer_id=producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.last_timestamp,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=state.transaction_first_offset,
        )
        for producer_id, state in partition.log.producers.items()
    )


def _answer(data: Data, topic: str, index: int) -> PartitionResponse:
    try:
        partition = data.partitions.serving(topic, index)
    except ApiError as error:
        return PartitionResponse(
            partition_index=index,
            error_code=error.code,
            error_message=error.message or error.code.name,
            active_producers=(),
        )
    return PartitionResponse(
        partition_index=index, error_code=0, error_message=None, active_producers=_producers(partition)
    )
